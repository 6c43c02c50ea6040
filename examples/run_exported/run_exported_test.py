"""Programs that JAX exports give the same bytes without Python, or an error."""

import os
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit

PROGRAM, PLUGIN, KIT, EXAMPLES = (
    os.path.abspath(os.environ[name])
    for name in ("PROGRAM", "PLUGIN", "KIT", "EXAMPLES")
)

XLA = {"bool": "pred", "float32": "f32", "int32": "s32"}


def exported(function, *operands):
    """The program, and the operands that it keeps."""
    targets = ["examples.counter", "examples.fail", "nobody.has_it"]
    checks = [
        *xla_ffi_kit.export_checks(),
        *map(jax.export.DisabledSafetyCheck.custom_call, targets),
    ]
    made = jax.export.export(
        jax.jit(function), platforms=["cpu"], disabled_checks=checks
    )(*operands)
    leaves = jax.tree.leaves(operands)
    return made.mlir_module_serialized, [
        np.asarray(leaves[i]) for i in made.module_kept_var_idx
    ]


def run(folder, function, *operands, libraries=(KIT, EXAMPLES), lacks=0):
    """(what the run writes to stdout, its sentence of an error).

    Its stdin lacks so many bytes of the operands.
    """
    program, kept = exported(function, *operands)
    (folder / "program").write_bytes(program)
    given = b"".join(x.tobytes() for x in kept)
    shapes = [f"{XLA[x.dtype.name]}{[*x.shape]}" for x in kept]
    ended = subprocess.run(
        [PROGRAM, PLUGIN, folder / "program", *libraries, *shapes],
        input=given[: len(given) - lacks],
        capture_output=True,
        check=False,
        # Another XLA than JAX's ends at a flag that it does not know.
        env={k: v for k, v in os.environ.items() if k != "XLA_FLAGS"},
    )
    assert ended.returncode == (1 if ended.stderr else 0), ended
    return ended.stdout, ended.stderr.decode()


def call(target, **attributes):
    made = jax.ffi.ffi_call(
        target, jax.ShapeDtypeStruct((), np.int32), has_side_effect=True
    )
    return made(**attributes)


def of_every_kind(parameters, x, unused, mask, offset):
    """Results of handlers and of what is the same in any XLA."""
    y = xla_ffi_kit.rms_norm(x, parameters["weight"])
    y = xla_ffi_kit.modular_add(parameters["bias"], y.reshape(-1))
    y = xla_ffi_kit.relu(y.reshape(x.shape))
    y = jnp.where(mask, y, -y)
    return y, y.T, y[:0], y > 0, y.argmax() + offset, y.astype(jnp.bfloat16)


def test_results_are_jaxs(tmp_path):
    random = np.random.default_rng(20)
    weight, bias = (random.normal(size=n).astype("f") for n in (16, 8))
    parameters = {"weight": weight, "bias": bias}
    x = random.normal(size=(4, 16)).astype("f")
    operands = parameters, x, np.int32(3), np.abs(x) > 1, np.int32(100)
    got, said = run(tmp_path, of_every_kind, *operands)
    want = [np.asarray(x).tobytes() for x in jax.jit(of_every_kind)(*operands)]
    assert (got, said) == (b"".join(want), "")


def test_a_gradient_is_jaxs(tmp_path):
    def gradient(x, weight):
        return jax.grad(
            lambda x, w: (xla_ffi_kit.rms_norm(x, w) ** 3).sum(), (0, 1)
        )(x, weight)

    random = np.random.default_rng(1)
    operands = [random.normal(size=n).astype("f") for n in ((8, 64), 64)]
    got, _ = run(tmp_path, gradient, *operands)
    want = np.concatenate([x.ravel() for x in jax.jit(gradient)(*operands)])
    np.testing.assert_allclose(np.frombuffer(got, "f"), want, 1e-5, 1e-5)


def test_a_handler_with_state(tmp_path):
    """Its type and its Instantiate stage are registered too."""

    def count():
        first = call("examples.counter", start=np.int32(10))
        return first, call("examples.counter", start=np.int32(20))

    got, said = run(tmp_path, count)
    assert (said, [*np.frombuffer(got, "i")]) == ("", [10, 20])


@pytest.mark.parametrize("has_result", [True, False])
def test_an_error_is_one_sentence(tmp_path, has_result):
    def ends(target):
        y = call(target, code=np.int32(3), message="out of tea")
        return y if has_result else ()

    got, said = run(tmp_path, lambda: ends("examples.fail"))
    assert said.startswith("run_exported: running the program: ")
    assert "out of tea" in said and got == b""
    got, said = run(tmp_path, lambda: ends("nobody.has_it"))
    assert said.startswith("run_exported: compiling the program: ")
    assert "nobody.has_it" in said and got == b""


def test_operands_that_stdin_lacks(tmp_path):
    x = np.ones((4, 3), "f")
    got, said = run(tmp_path, jnp.negative, x, lacks=4)
    assert (got, said) == (
        b"",
        "run_exported: stdin has fewer bytes than the arguments\n",
    )


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ([], "expected PLUGIN.so PROGRAM [LIBRARY.so]... [SHAPE]..."),
        ([KIT, "x"], f"{KIT} exports no GetPjrtApi"),
        ([PLUGIN, "no_file"], "cannot read no_file"),
        ([PLUGIN, PROGRAM, PLUGIN], f"{PLUGIN} exports no XlaFfiKit_"),
        ([PLUGIN, PROGRAM, "f8[1]"], "expected a shape such as f32[4,256]"),
    ],
    ids=["none", "no plugin", "no program", "no handlers", "no shape"],
)
def test_mistakes(arguments, want):
    ended = subprocess.run(
        [PROGRAM, *arguments], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"run_exported: {want}")
