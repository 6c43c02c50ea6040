"""A loop that XLA cannot run fast, from one string on CPUs and on CUDA."""

import os
import tempfile

# What a test compiles is not for the user's own cache.
_cache = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
os.environ["XLA_FFI_KIT_CACHE"] = _cache.name

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import xla_ffi_kit  # noqa: E402
from xla_ffi_kit.testing import Case, check_op  # noqa: E402


@xla_ffi_kit.rows(
    r"""
    A level = 0;
    for (int64_t i = 0; i < x.size(); ++i) {
      level = x[i] > level ? x[i] : decay * level;
      out[i] = level;
    }
    """,
    dtypes="f32 bf16",
)
def envelope(x, *, decay=0.9):
    def step(level, value):
        level = jnp.where(value > level, value, decay * level)
        return level.astype(x.dtype), level.astype(x.dtype)

    start = jnp.zeros(x.shape[:-1], x.dtype)
    levels = jax.lax.scan(step, start, jnp.moveaxis(x, -1, 0))[1]
    return jnp.moveaxis(levels, 0, -1)


@xla_ffi_kit.rows(
    r"""
    A level = 0;
    kit::for_each(x, out, [&](auto value) {
      return level = value > level ? value : decay * level;
    });
    """,
    dtypes="f32 bf16",
)
def even_envelope(x, *, decay=0.9):
    return envelope.reference(x, decay=decay)


@xla_ffi_kit.cuda(
    r"""
    __global__ void row_sum(kit::In<float> x, kit::Out<float> y) {
      const float* row = x.row(blockIdx.x);
      float sum = 0;
      for (int64_t i = threadIdx.x; i < x.columns(); i += blockDim.x)
        sum += row[i];
      sum = kit::block_sum(sum);
      if (threadIdx.x == 0) y[blockIdx.x] = sum;
    }
    """,
    grid=lambda x: x.size // x.shape[-1],
    block=256,
    kernel_axes=1,
    dtypes="f32",
)
def row_sum(x):
    return jnp.sum(x, -1)


def test_the_two_forms_agree():
    x = jax.random.normal(jax.random.key(0), (37, 100))
    np.testing.assert_allclose(envelope(x), even_envelope(x))


def test_it_is_an_operation_like_others():
    print(check_op(even_envelope, [Case("f32[3,11]", decay=0.8)]))


def test_where_there_is_no_gpu_the_reference_runs():
    assert row_sum(jnp.ones((2, 3))).tolist() == [3, 3]
