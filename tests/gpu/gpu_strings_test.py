"""CUDA in strings on a GPU: see gpu_ops_test.py."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import string_kernels
from gpu_data import CPU, DEVICE, PLATFORM
from string_kernels import SHOWN

import xla_ffi_kit

# 32 rows are a warp; the lengths are whole tiles, packs of 16 bytes, and not.
ROWS = [1, 31, 32, 1000]
SIZES = [1, 7, 64, 515]
NEEDS_GPU = pytest.mark.skipif(PLATFORM == "cpu", reason="a GPU's code")


def operands_of(shown, rows, size, seed=0):
    """Values that the operation is made for; rows of about `size` elements."""
    rng = np.random.default_rng(seed)
    made = []
    for i, text in enumerate(shown.operands):
        dtype, _, shape = text.rstrip("]").partition("[")
        shape = [int(n) for n in shape.split(",")]
        if i not in shown.op.spec.shared:
            shape[0] = rows
            # Axes of 2 and 4 mean something: a state, or how many there are.
            shape[1:] = [n if n <= 4 else size for n in shape[1:]]
        if dtype.startswith("s"):
            values = rng.integers(0, 3, shape).astype(np.int32)
        else:
            values = rng.uniform(0.1, 1, shape).astype(np.float32)
        made.append(values)
    return made


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.op.name)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("size", SIZES)
def test_loop_values(shown, rows, size):
    operands = operands_of(shown, rows, size)
    on_device = [jax.device_put(x, DEVICE) for x in operands]
    got = jax.jit(shown.op)(*on_device)
    on_cpu = [jax.device_put(x, CPU) for x in operands]
    want = jax.jit(shown.op.reference)(*on_cpu)
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        if g.dtype.kind == "i":
            np.testing.assert_array_equal(g, w)
        else:
            np.testing.assert_allclose(g, w, 2e-4, 2e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dtype_values(dtype):
    op = string_kernels.recurrence
    x = jnp.asarray(np.random.default_rng(0).normal(size=(70, 333)), dtype)
    got = jax.jit(op)(jax.device_put(x, DEVICE))
    want = jax.jit(op.reference)(jax.device_put(x, CPU))
    tolerance = {"float64": 1e-12, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    np.testing.assert_allclose(
        np.asarray(got, float), np.asarray(want, float), tolerance, tolerance
    )


def test_transformed_values():
    a, b = operands_of(SHOWN[1], 40, 100)

    def loss(f):
        def total(a, b):
            return jnp.sum(jnp.sin(jax.vmap(f)(a, b)))

        return jax.grad(total, (0, 1))

    got = jax.jit(loss(string_kernels.gates))(
        *(jax.device_put(x, DEVICE) for x in (a, b))
    )
    want = jax.jit(loss(string_kernels.gates.reference))(
        *(jax.device_put(x, CPU) for x in (a, b))
    )
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, 1e-4, 1e-5)


def _sum_with_blocks(shared_bytes):
    @xla_ffi_kit.cuda(
        r"""
        __global__ void row_sum(kit::In<float> x, kit::Out<float> y) {
          float* partial = kit::shared_memory<float>();
          float sum = 0;
          for (int64_t i = threadIdx.x; i < x.columns(); i += blockDim.x) {
            sum += x.row(blockIdx.x)[i];
          }
          partial[threadIdx.x] = sum;
          sum = kit::block_sum(partial[threadIdx.x]);
          if (threadIdx.x == 0) y[blockIdx.x] = sum;
        }""",
        grid=lambda x: x.size // x.shape[-1],
        block=256,
        shared_memory=shared_bytes,
        kernel_axes=1,
    )
    def row_sum(x):
        return jnp.sum(x, -1)

    return row_sum


@pytest.mark.parametrize("shared_bytes", [1024, 90_000])
def test_block_values(shared_bytes):
    x = np.random.default_rng(0).normal(size=(100, 3001)).astype(np.float32)
    op = _sum_with_blocks(shared_bytes)
    got = jax.jit(op)(jax.device_put(x, DEVICE))
    np.testing.assert_allclose(got, x.sum(-1), 1e-3, 1e-3)


@NEEDS_GPU
def test_too_much_shared_memory_is_an_error_by_name():
    with pytest.raises(Exception, match="row_sum: shared: expected at most"):
        jax.block_until_ready(
            _sum_with_blocks(1 << 20)(jnp.ones((2, 3), jnp.float32))
        )


def fault():
    """A kernel that writes where there is no memory."""

    @xla_ffi_kit.rows(
        "out[int64_t(1) << 40] = x[0];", dtypes="f32", platforms=("cuda",)
    )
    def wild(x):
        return x

    jax.block_until_ready(wild(jnp.ones((2, 3), jnp.float32)))


@NEEDS_GPU
def test_a_kernel_that_faults_is_named():
    done = subprocess.run(
        [sys.executable, "-c", "import gpu_strings_test as t; t.fault()"],
        env=os.environ
        | {
            "XLA_FFI_KIT_CUDA_SYNC": "1",
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "wild: the kernel failed: " in done.stderr


def test_exported_values():
    """The program has the code, for sizes that it is not compiled for."""
    op = string_kernels.recurrence
    exported = jax.export.export(
        jax.jit(op),
        platforms=(PLATFORM,),
        disabled_checks=xla_ffi_kit.export_checks(op),
    )(jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, m"), np.float32))
    x = np.random.default_rng(0).normal(size=(37, 100)).astype(np.float32)
    with jax.default_device(DEVICE):
        got = exported.call(jax.device_put(x, DEVICE))
    want = jax.jit(op.reference)(jax.device_put(x, CPU))
    np.testing.assert_allclose(got, want, 1e-5, 1e-6)
