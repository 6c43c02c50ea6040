"""`xla_ffi_kit.cuda`, in the emulator."""

import emulated_cuda
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inline_data import close
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import xla_ffi_kit
from xla_ffi_kit.testing import Case, check_op


@xla_ffi_kit.cuda(
    r"""
    template <typename T>
    __global__ void row_norm(kit::In<T> x, double eps, kit::Out<T> y) {
      float sum = 0;
      for (int64_t i = threadIdx.x; i < x.columns(); i += blockDim.x) {
        sum += x.row(blockIdx.x)[i] * x.row(blockIdx.x)[i];
      }
      const float scale = 1 / std::sqrt(kit::block_sum(sum) + float(eps));
      for (int64_t i = threadIdx.x; i < x.columns(); i += blockDim.x) {
        y.row(blockIdx.x)[i] = x.row(blockIdx.x)[i] * scale;
      }
    }
    """,
    grid=lambda x, *, eps: x.size // x.shape[-1],
    block=64,
    kernel_axes=1,
    dtypes="f32 bf16",
)
def row_norm(x, *, eps=1e-6):
    wide = x.astype(jnp.float32)
    total = jnp.sum(wide * wide, -1, keepdims=True)
    return (wide * jax.lax.rsqrt(total + eps)).astype(x.dtype)


@xla_ffi_kit.cuda(
    r"""
    // Counts in shared memory first.
    __global__ void count(kit::In<int32_t> x, kit::Array<int64_t> of,
                          kit::Out<int32_t> n, kit::Out<uint8_t> scratch) {
      int* counts = kit::shared_memory<int>();
      const int64_t bins = of.size();
      for (int64_t j = threadIdx.x; j < bins; j += blockDim.x) counts[j] = 0;
      __syncthreads();
      const auto* row = x.row(blockIdx.x);
      for (int64_t i = threadIdx.x; i < x.columns(); i += blockDim.x) {
        scratch[blockIdx.x * x.columns() + i] = 1;
        for (int64_t j = 0; j < bins; ++j) {
          if (row[i] == of[j]) atomicAdd(&counts[j], 1);
        }
      }
      __syncthreads();
      for (int64_t j = threadIdx.x; j < bins; j += blockDim.x) {
        n.row(blockIdx.x)[j] = counts[j];
      }
    }
    """,
    grid=lambda x, of: x.size // x.shape[-1],
    block=lambda x, of: (33, 1),
    shared_memory=lambda x, of: 4 * len(of),
    kernel_axes=1,
    attributes={"of": (np.int64,)},
    advanced=xla_ffi_kit.Advanced(workspace={"cuda": lambda x, of: x.size}),
)
def count(x, *, of):
    bins = jnp.asarray(of, x.dtype)
    return jnp.sum(x[..., None] == bins, -2, dtype=jnp.int32)


_NORM = emulated_cuda.emulated(row_norm)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("backwards", [False, True])
def test_blocks(dtype, backwards):
    x = jax.random.normal(jax.random.key(0), (2, 3, 100)).astype(dtype)
    with emulated_cuda.threads_backwards(backwards):
        got = jax.block_until_ready(_NORM(x))
    close(got, row_norm(x), 1e-5 if dtype == "float32" else 1e-2)


def test_contract():
    # The grid follows from the sizes.
    case = Case("f32[3,17]", eps=1e-5)
    print(check_op(_NORM, [case], skip=["symbolic batch"]))


def test_shared_memory_arrays_and_scratch():
    op = emulated_cuda.emulated(count)
    x = jnp.asarray(np.random.default_rng(0).integers(0, 9, (4, 50)), jnp.int32)
    for of in ((1, 2, 3), tuple(range(9)), (5,)):
        np.testing.assert_array_equal(op(x, of=of), count(x, of=of))
        np.testing.assert_array_equal(
            jax.vmap(lambda v, of=of: op(v, of=of))(x), count(x, of=of)
        )


def test_geometry_is_that_of_each_device():
    if jax.device_count() < 4:
        pytest.skip("four devices")
    mesh = Mesh(np.array(jax.devices()[:4]), ("d",))
    x = jax.random.normal(jax.random.key(0), (8, 40))
    x = jax.device_put(x, NamedSharding(mesh, PartitionSpec("d")))
    before = emulated_cuda.launches()
    got = jax.jit(_NORM)(x)
    np.testing.assert_allclose(got, row_norm(x), 1e-5)
    assert emulated_cuda.launches() == before + 4


def _with(**options):
    options = {"grid": 1, "block": 32, "kernel_axes": 1} | options

    @xla_ffi_kit.cuda(
        """__global__ void op(kit::In<float> x, kit::Out<float> y) {
          y[threadIdx.x] = kit::block_sum(x[threadIdx.x]); }""",
        **options,
    )
    def op(x):
        return x

    return emulated_cuda.emulated(op)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"block": 33}, "block: expected a multiple of 32 threads"),
        ({"block": (2048,)}, "block: expected 1 to 1024 threads, got 2048"),
        ({"block": lambda x: "32"}, "block: expected one to three numbers"),
        ({"grid": (1, 2, 3, 4)}, "grid: expected one to three numbers"),
        ({"grid": -1}, "grid: expected one to three numbers"),
    ],
)
def test_wrong_geometry(options, said):
    with pytest.raises(ValueError, match=f"op: {said}"):
        _with(**options)(jnp.ones(32))


def test_too_much_shared_memory():
    op = _with(shared_memory=1 << 20)
    with pytest.raises(jax.errors.JaxRuntimeError) as error:
        jax.block_until_ready(op(jnp.ones(32)))
    assert (
        "op: shared: expected at most 230400 bytes of dynamic shared memory"
        in str(error.value)
    )


def test_names():
    with pytest.raises(
        xla_ffi_kit.errors.BuildError, match="function: expected"
    ):
        _with(function="no name")
    with pytest.raises(TypeError, match="wrong"):
        _with(wrong=1)


def test_other_platforms_run_the_reference():
    x = jnp.ones((2, 3))
    np.testing.assert_allclose(row_norm(x), jnp.full((2, 3), 3**-0.5), 1e-5)
