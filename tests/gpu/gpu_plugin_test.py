"""JAX's own plugin runs the handlers without Python, by `run_exported`.

Part of //tests/gpu:bundle: what XlaBuilder made, and what JAX exports.
"""

import importlib.util
import os
import pathlib
import subprocess

import jax
import numpy as np
from gpu_data import PLATFORM

import xla_ffi_kit

HERE = pathlib.Path(__file__).parent


def plugin():
    """The PJRT plugin of the platform: JAX's own, or the test's for CPUs."""
    if "PJRT_PLUGIN" in os.environ:
        return pathlib.Path(os.environ["PJRT_PLUGIN"])
    for name in ("xla_cuda13", "xla_cuda12"):
        spec = importlib.util.find_spec(f"jax_plugins.{name}")
        if spec is not None and spec.origin is not None:
            return pathlib.Path(spec.origin).with_name("xla_cuda_plugin.so")
    raise FileNotFoundError("jax_plugins has no CUDA plugin")


LIBRARY = str(HERE / f"xla_ffi_kit/_lib/xla_ffi_kit_{PLATFORM}.so")


def run(program, operands):
    """What `run_exported` writes to stdout, as f32."""
    shapes = [f"f32{[*x.shape]}" for x in operands]
    done = subprocess.run(
        [HERE / "run_exported", plugin(), program, LIBRARY, *shapes],
        input=b"".join(x.tobytes() for x in operands),
        capture_output=True,
        check=False,
        # The GPU's memory is this process's too.
        env=os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    )
    assert done.returncode == 0, done.stderr.decode()
    return np.frombuffer(done.stdout, np.float32)


def test_modular_add_of_xlas_page():
    b = np.arange(128, dtype=np.float32)
    c = np.arange(2048, dtype=np.float32) / 2
    got = run(HERE / "modular_add.hlo", [b, c])
    np.testing.assert_array_equal(got, np.tile(b, 16) + c)


def test_rms_norm_with_a_weight_and_the_scale():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((33, 1024), np.float32)
    weight = rng.standard_normal(1024, np.float32)
    got = run(HERE / "rms_norm.hlo", [x, weight])
    scale = 1 / np.sqrt((x.astype(float) ** 2).mean(1) + 0.5)
    want = np.concatenate([(x * scale[:, None] * weight).ravel(), scale])
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-6)


def test_a_gradient_that_jax_exports(tmp_path):
    def loss(x, weight):
        return (xla_ffi_kit.rms_norm(x, weight) ** 3).sum()

    rng = np.random.default_rng(1)
    x = rng.standard_normal((8, 4096), np.float32)
    weight = rng.standard_normal(4096, np.float32)
    function = jax.jit(jax.value_and_grad(loss, (0, 1)))
    exported = jax.export.export(
        function,
        platforms=[PLATFORM],
        disabled_checks=xla_ffi_kit.export_checks(),
    )(x, weight)
    (tmp_path / "program").write_bytes(exported.mlir_module_serialized)
    got = run(tmp_path / "program", [x, weight])
    want = jax.tree.leaves(function(x, weight))
    want = np.concatenate([np.asarray(y).ravel() for y in want])
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
