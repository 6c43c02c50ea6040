"""What XLA captures in CUDA graphs: see gpu_ops_test.py.

XLA writes the thunks that it made to files; each program is compiled in a
process of its own, because XLA reads its flags once.
"""

import os
import pathlib
import subprocess
import sys

import pytest
from gpu_data import PLATFORM

pytestmark = pytest.mark.skipif(PLATFORM == "cpu", reason="a GPU's thunks")

FLAGS = (
    "--xla_gpu_enable_command_buffer=FUSION,CUSTOM_CALL "
    "--xla_gpu_graph_min_graph_size=1 "
)

# Runs a function on arrays that lie elsewhere each time, old ones kept, and
# compares with the CPU.
PROGRAM = """
import sys
import jax, jax.numpy as jnp, numpy as np
import xla_ffi_kit
from xla_ffi_kit.ops.rms_norm import rms_norm_weight_bwd_op

def forward(x, w):
    return xla_ffi_kit.relu(xla_ffi_kit.rms_norm(x, w)) + 1

def backward(x, w):
    return rms_norm_weight_bwd_op(jnp.ones(x.shape[0]), x, w, x)

function = jax.jit({function})
gpu, cpu = jax.devices("cuda")[0], jax.devices("cpu")[0]
kept = []
for seed in range(6):
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((64, 512)), rng.standard_normal(512)
    args = [np.float32(x), np.float32(w)]
    on_gpu = [jax.device_put(a, gpu) for a in args]
    got = function(*on_gpu)
    kept.append((on_gpu, got))
    want = function(*[jax.device_put(a, cpu) for a in args])
    jax.tree.map(
        lambda g, w: np.testing.assert_allclose(g, w, 1e-5, 1e-4), got, want
    )
"""


def thunks(function: str, folder: pathlib.Path) -> str:
    """The thunks that XLA made of a function, as text, after it ran well."""
    subprocess.run(
        [sys.executable, "-c", PROGRAM.format(function=function)],
        check=True,
        env=os.environ
        | {
            "XLA_FLAGS": f"{FLAGS} --xla_dump_to={folder}",
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        },
    )
    files = [path for path in folder.iterdir() if "thunk_sequence" in path.name]
    assert files, f"XLA wrote no thunks: {sorted(folder.iterdir())}"
    return "\n".join(path.read_text() for path in files)


def test_kernels_without_scratch_memory_are_captured(tmp_path):
    assert "CommandBuffer" in thunks("forward", tmp_path)


def test_a_handler_with_scratch_memory_is_not(tmp_path):
    for line in thunks("backward", tmp_path).splitlines():
        is_handler = "rms_norm_weight_bwd" in line
        assert not (is_handler and "CommandBuffer" in line), line
