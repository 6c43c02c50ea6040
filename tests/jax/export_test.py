"""Export to other processes and platforms, its checks, the persistent cache."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import operation, run_python
from jax import export

import xla_ffi_kit
from xla_ffi_kit import export_checks, relu
from xla_ffi_kit.library import registration
from xla_ffi_kit.ops import modular_add
from xla_ffi_kit.ops.rms_norm import rms_norm_op

pytest.importorskip("flatbuffers", reason="jax.export serializes with it")


def layer(x, w):
    return xla_ffi_kit.modular_add(
        x[..., :2], xla_ffi_kit.rms_norm(x, w, eps=1e-3)
    )


CHECKS = export_checks(rms_norm_op, modular_add)

READ = """
import sys, numpy as np, jax
from jax import export
if sys.argv[3] == "import":
    import xla_ffi_kit
program = export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
data = np.load(sys.argv[2])
for i in range(2):
    x, w, y, dx, dw = (data[f"{n}{i}"] for n in ("x", "w", "y", "dx", "dw"))
    np.testing.assert_allclose(program.call(x, w), y, rtol=1e-5)
    loss = lambda x, w: (program.call(x, w) ** 2).sum()
    got = jax.grad(loss, (0, 1))(x, w)
    np.testing.assert_allclose(got[0], dx, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(got[1], dw, rtol=1e-4, atol=1e-4)
print("read")
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A layer exported with a symbolic batch and a derivative, and results."""
    folder = tmp_path_factory.mktemp("export")
    (batch,) = export.symbolic_shape("b")
    program = export.export(jax.jit(layer), disabled_checks=CHECKS)(
        jax.ShapeDtypeStruct((batch, 6), np.float32),
        jax.ShapeDtypeStruct((6,), np.float32),
    )
    (folder / "program").write_bytes(program.serialize(vjp_order=1))
    data = {}
    rng = np.random.default_rng(0)
    for i, rows in enumerate((3, 8)):
        x = rng.normal(size=(rows, 6)).astype(np.float32)
        w = rng.normal(size=6).astype(np.float32)
        dx, dw = jax.grad(lambda x, w: (layer(x, w) ** 2).sum(), (0, 1))(x, w)
        values = {"x": x, "w": w, "y": layer(x, w), "dx": dx, "dw": dw}
        data |= {f"{k}{i}": v for k, v in values.items()}
    np.savez(folder / "data.npz", **data)
    return folder


def test_importing_the_kit_is_enough_to_run_it(exported):
    """And without it, the error names the target."""
    files = exported / "program", exported / "data.npz"
    done = run_python(READ, *files, "import")
    assert done.stdout.strip() == "read", done.stderr
    done = run_python(READ, *files, "")
    assert done.returncode != 0
    assert "xla_ffi_kit." in done.stderr


def test_export_without_the_checks_is_refused():
    with pytest.raises(ValueError, match="xla_ffi_kit.rms_norm"):
        export.export(jax.jit(layer))(jnp.ones((2, 6)), jnp.ones(6))


def test_several_platforms():
    program = export.export(
        jax.jit(layer), platforms=("cpu", "tpu"), disabled_checks=CHECKS
    )(jnp.ones((2, 6)), jnp.ones(6))
    module = program.mlir_module()
    assert module.count("@xla_ffi_kit.rms_norm(") == 1
    assert "stablehlo.rsqrt" in module  # the reference, on the other platform
    x = jnp.arange(12.0).reshape(2, 6)
    np.testing.assert_allclose(
        program.call(x, jnp.ones(6)), layer(x, jnp.ones(6)), rtol=1e-6
    )


def test_each_platform_calls_its_own_target():
    handlers = {"cpu": "test.on_cpu", "cuda": "test.on_cuda"}
    op = operation(lambda x: x, kernel_axes=1, handlers=handlers)
    program = export.export(
        jax.jit(op),
        platforms=("cpu", "cuda", "tpu"),
        disabled_checks=xla_ffi_kit.export_checks(op),
    )(jnp.ones((2, 6)))
    module = program.mlir_module()
    assert module.count("@test.on_cpu(") == 1
    assert module.count("@test.on_cuda(") == 1
    here = jax.jit(op).lower(jnp.ones((2, 6))).as_text()
    assert "@test.on_cpu(" in here and "test.on_cuda" not in here


# --- What export_checks allows, of what it is given --------------------------


def targets(*operations):
    return {str(check) for check in export_checks(*operations)}


def allowed(target):
    return str(export.DisabledSafetyCheck.custom_call(target))


RELU = allowed("xla_ffi_kit.relu")


def test_what_is_allowed_is_enough():
    for ops in ((), (relu,)):
        program = export.export(
            jax.jit(lambda x: relu(x)), disabled_checks=export_checks(*ops)
        )(jnp.ones((2, 3)))
        assert "@xla_ffi_kit.relu(" in program.mlir_module()
        program.serialize(vjp_order=1)


def test_an_operation_allows_its_targets_and_those_of_its_libraries():
    op = operation(lambda x: x, handlers={"cpu": "test.forward_target"})
    assert targets(op) == {allowed("test.forward_target")}
    assert targets(op, relu) >= {
        RELU,
        allowed("xla_ffi_kit.rms_norm"),
        allowed("xla_ffi_kit.rms_norm_bwd"),
        allowed("test.forward_target"),
    }


def test_without_arguments_all_of_the_process():
    op = operation(lambda x: x, handlers={"cpu": "test.its_target"})
    unusable = xla_ffi_kit.FfiOp(
        "test.unusable", lambda x: x, kernel_axes=0, libraries=__file__
    )
    everything = targets()
    assert everything >= {RELU, allowed("test.its_target")}
    assert everything >= {
        allowed(name) for name in xla_ffi_kit.ops.LIBRARIES[0].targets
    }
    assert len(export_checks()) == len(everything)
    assert everything >= targets(op, relu)
    assert targets(unusable) == {allowed("test.unusable")}


def test_without_arguments_what_no_operation_has(monkeypatch):
    """A library that is only registered, as where a program is read back."""
    monkeypatch.setitem(registration._handlers, ("other.one", "cpu"), "a.so")
    assert targets() >= {RELU, allowed("other.one")}


# --- The persistent cache ---------------------------------------------------

CACHE = """
import jax, jax.numpy as jnp, xla_ffi_kit
hits = []
jax.monitoring.register_event_listener(
    lambda name, **_: hits.append(name) if "cache_hits" in name else None)
f = jax.jit(lambda x: jnp.tanh(xla_ffi_kit.rms_norm(x)) + 1)
print(len(hits), float(f(jnp.full((4, 8), 2.0)).sum()), len(hits))
"""


def test_persistent_cache_hits_across_processes(tmp_path):
    environment = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    first = run_python(CACHE, **environment)
    second = run_python(CACHE, **environment)
    assert first.returncode == 0, first.stderr
    before, value, after = second.stdout.split()
    assert int(after) > int(before), second.stderr
    assert value == first.stdout.split()[1]
