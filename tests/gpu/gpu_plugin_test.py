"""JAX's own plugin runs the handlers without Python: HLO, and a server.

Part of //tests:gpu_bundle, whose programs are C++: `run_hlo` on what XlaBuilder
made, and the server of examples/pjrt_server on what JAX exports.
"""

import importlib.util
import io
import os
import pathlib
import subprocess

import client
import jax
import numpy as np
import pytest
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


def run(program, stdin, *arguments):
    """What a program of the bundle writes to stdout."""
    done = subprocess.run(
        [HERE / program, plugin(), *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        # The GPU's memory is this process's too.
        env=os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_modular_add_of_xlas_page():
    b = np.arange(128, dtype=np.float32)
    c = np.arange(2048, dtype=np.float32) / 2
    said = run(
        *("run_hlo", b.tobytes() + c.tobytes()),
        *(str(HERE / "modular_add.hlo"), LIBRARY, "f32[128]", "f32[2048]"),
    )
    np.testing.assert_array_equal(
        np.frombuffer(said, np.float32), np.tile(b, 16) + c
    )


def test_rms_norm_with_a_weight_and_the_scale():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((33, 1024), np.float32)
    weight = rng.standard_normal(1024, np.float32)
    said = run(
        *("run_hlo", x.tobytes() + weight.tobytes()),
        *(str(HERE / "rms_norm.hlo"), LIBRARY, "f32[33,1024]", "f32[1024]"),
    )
    got = np.frombuffer(said, np.float32)
    scale = 1 / np.sqrt((x.astype(float) ** 2).mean(1) + 0.5)
    want = np.concatenate([(x * scale[:, None] * weight).ravel(), scale])
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-6)


def test_the_server_serves_a_gradient(tmp_path):
    def loss(x, weight):
        return (xla_ffi_kit.rms_norm(x, weight) ** 3).sum()

    pytest.importorskip("flatbuffers")  # what JAX serializes with
    rng = np.random.default_rng(1)
    x = rng.standard_normal((8, 4096), np.float32)
    weight = rng.standard_normal(4096, np.float32)
    function = jax.jit(jax.value_and_grad(loss, (0, 1)))
    exported = jax.export.export(
        function,
        platforms=[PLATFORM],
        disabled_checks=xla_ffi_kit.export_checks(),
    )(x, weight)
    (tmp_path / "program").write_bytes(exported.serialize())
    request = io.BytesIO()
    client.write(request, [x, weight])
    reply = io.BytesIO(
        run(
            *("server", request.getvalue()),
            *(str(tmp_path / "program"), f"--library={LIBRARY}"),
        )
    )
    want = jax.tree.leaves(function(x, weight))
    got = client.read(reply)
    assert len(got) == len(want) == 3
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, np.asarray(w), rtol=1e-5, atol=1e-5)
