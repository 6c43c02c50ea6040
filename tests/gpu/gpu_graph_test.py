"""What XLA captures in CUDA graphs: see gpu_ops_test.py.

XLA writes the thunks that it made to files; the program is compiled in a
process of its own, because XLA reads its flags once.
"""

import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import string_kernels
from gpu_data import CPU, DEVICE, PLATFORM
from gpu_examples_test import scratch

import xla_ffi_kit
from xla_ffi_kit.ops import relu
from xla_ffi_kit.ops.rms_norm import rms_norm_op, rms_norm_weight_bwd_op

# Of custom calls only, so that nothing else makes a graph; and of single ones.
FLAGS = (
    "--xla_gpu_enable_command_buffer=CUSTOM_CALL "
    "--xla_gpu_graph_min_graph_size=1 "
)

# Handler -> whether XLA captures it. The last one, of the examples, has scratch
# memory, and so says that it may not be.
CAPTURED = {
    rms_norm_op.spec.handlers["cuda"]: True,
    relu.spec.handlers["cuda"]: True,
    rms_norm_weight_bwd_op.spec.handlers["cuda"]: True,
    "examples.scratch": False,
    "xla_ffi_kit.launch": True,
}


def program(x, w):
    forward = xla_ffi_kit.relu(xla_ffi_kit.rms_norm(x, w)) + 1
    backward = rms_norm_weight_bwd_op(x, x, jnp.ones(x.shape[0], x.dtype), w)
    forward += string_kernels.recurrence(x)
    return forward, backward, jnp.int32(x.shape[0]) - scratch()


def compare_with_the_cpu():
    """Runs it on arrays that lie elsewhere each time, old ones kept."""
    function = jax.jit(program)
    kept = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x, w = rng.standard_normal((64, 512)), rng.standard_normal(512)
        args = [np.float32(x), np.float32(w)]
        on_gpu = [jax.device_put(a, DEVICE) for a in args]
        got = function(*on_gpu)
        kept.append((on_gpu, got))
        forward, backward, difference = got
        assert int(difference) == 64 - 3
        want = jax.jit(reference)(*[jax.device_put(a, CPU) for a in args])
        jax.tree.map(
            lambda g, w: np.testing.assert_allclose(g, w, 1e-5, 1e-4),
            (forward, backward),
            want,
        )


def reference(x, w):
    """The two results of handlers that the CPU has, too."""
    with xla_ffi_kit.use_reference():
        y = xla_ffi_kit.relu(xla_ffi_kit.rms_norm(x, w)) + 1
        y += string_kernels.recurrence(x)
        ones = jnp.ones(x.shape[0], x.dtype)
        return y, rms_norm_weight_bwd_op(x, x, ones, w)


def test_the_program_calls_these_handlers():
    operands = [jax.ShapeDtypeStruct(s, np.float32) for s in ((4, 8), (8,))]
    traced = jax.jit(program).trace(*operands)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert set(re.findall(r"custom_call @([\w.]+)\(", text)) == set(CAPTURED)


@pytest.mark.skipif(PLATFORM == "cpu", reason="a GPU's thunks")
def test_which_handlers_are_captured(tmp_path):
    subprocess.run(
        [
            *(sys.executable, "-c"),
            "import gpu_graph_test; gpu_graph_test.compare_with_the_cpu()",
        ],
        check=True,
        env=os.environ
        | {
            "XLA_FLAGS": f"{FLAGS} --xla_dump_to={tmp_path}",
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        },
    )
    # The program for the CPU, of the same name, has no such file.
    name = "module_*.jit_program.thunk_sequence_after_thunk_passes.txt"
    (file,) = tmp_path.glob(name)
    # A thunk a line, as `002: kCustomCall`; those of a command buffer are
    # indented.
    thunks = re.findall(r"(?m)^( *)\d+: +kCustomCall", file.read_text())
    assert sorted(map(bool, thunks)) == sorted(CAPTURED.values())
