"""What XLA captures in CUDA graphs: see gpu_ops_test.py.

XLA writes the thunks that it made to files; the program is compiled in a
process of its own, because XLA reads its flags once.
"""

import os
import subprocess
import sys

import pytest
from gpu_data import PLATFORM
from gpu_thunks import read_dump

pytestmark = pytest.mark.skipif(PLATFORM == "cpu", reason="a GPU's thunks")

# Of custom calls only, so that nothing else makes a graph; and of single ones.
FLAGS = (
    "--xla_gpu_enable_command_buffer=CUSTOM_CALL "
    "--xla_gpu_graph_min_graph_size=1 "
)

# Runs handlers that say they may be captured, and one that does not, because it
# has scratch memory, on arrays that lie elsewhere each time, old ones kept, and
# compares with the CPU.
PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
import xla_ffi_kit
from xla_ffi_kit.ops.rms_norm import rms_norm_weight_bwd_op

def program(x, w):
    forward = xla_ffi_kit.relu(xla_ffi_kit.rms_norm(x, w)) + 1
    backward = rms_norm_weight_bwd_op(x, x, jnp.ones(x.shape[0]), w)
    return forward, backward

function = jax.jit(program)
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


def test_which_handlers_are_captured(tmp_path):
    subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=True,
        env=os.environ
        | {
            "XLA_FLAGS": f"{FLAGS} --xla_dump_to={tmp_path}",
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        },
    )
    # The program for the CPU, of the same name, has no such files.
    assert read_dump(tmp_path, "jit_program") == {
        "xla_ffi_kit.rms_norm_weight": {True},
        "xla_ffi_kit.relu": {True},
        "xla_ffi_kit.rms_norm_weight_bwd": {False},
    }
