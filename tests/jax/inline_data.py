"""Operations from strings, in a cache of the test's own."""

import os
import tempfile

_folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
os.environ["XLA_FFI_KIT_CACHE"] = _folder.name

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

import xla_ffi_kit  # noqa: E402

_FLAGS = ["-O1"]  # They are compiled in each process, for small arrays.


@xla_ffi_kit.inline(
    r"""
template <typename T>
void softplus(kit::In<T> x, double beta, kit::Out<T> y) {
  for (int64_t i = 0; i < x.size(); ++i)
    y[i] = T(std::log1p(std::exp(beta * double(x[i]))) / beta);
}""",
    dtypes="f32 bf16",
    flags=_FLAGS,
    kernel_axes=0,
)
def softplus(x, *, beta=1.0):
    """log(1 + exp(beta x)) / beta."""
    return jax.nn.softplus(beta * x) / beta


@xla_ffi_kit.inline(
    r"""
template <typename T>
void rms_norm(kit::In<T> x, double eps, kit::Out<T> y, kit::Threads threads) {
  const int64_t n = x.columns();
  threads.For(x.rows(), 2 * n * sizeof(T), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += x.row(r)[i] * x.row(r)[i];
      const float scale = 1 / std::sqrt(sum / n + float(eps));
      for (int64_t i = 0; i < n; ++i) y.row(r)[i] = x.row(r)[i] * scale;
    }
  });
}""",
    dtypes="f32 bf16",
    flags=_FLAGS,
    kernel_axes=1,
)
def rms_norm(x, *, eps=1e-6):
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide * wide, -1, keepdims=True)
    return (wide * jax.lax.rsqrt(mean + eps)).astype(x.dtype)


@xla_ffi_kit.inline(
    r"""
void polynomial(kit::In<float> x, kit::Array<double> factors,
                std::string_view order, bool negate, kit::Out<float> y) {
  const int64_t n = factors.size();
  for (int64_t i = 0; i < x.size(); ++i) {
    double value = 0;
    for (int64_t j = 0; j < n; ++j)
      value = value * x[i] + factors[order == "falling" ? j : n - 1 - j];
    y[i] = negate ? -value : value;
  }
}""",
    flags=_FLAGS,
    kernel_axes=0,
)
def polynomial(x, *, factors, order="falling", negate=False):
    value = jnp.zeros_like(x)
    for factor in factors if order == "falling" else reversed(factors):
        value = value * x + factor
    return -value if negate else value


@xla_ffi_kit.elementwise(
    "x * std::tanh(scale * y)", "x - y", dtypes="f32 bf16", flags=_FLAGS
)
def gate(x, y, *, scale=1.0):
    wide = jnp.promote_types(x.dtype, jnp.float32)
    x, y, dtype = x.astype(wide), y.astype(wide), x.dtype
    return (x * jnp.tanh(scale * y)).astype(dtype), (x - y).astype(dtype)


@xla_ffi_kit.rows(
    r"""
    A peak = 0;
    for (const T v : x) peak = std::max(peak, A(std::abs(A(v))));
    for (int64_t i = 0; i < x.size(); ++i)
      out[i] = peak > floor ? weight[i] * x[i] / peak : A(0);
    """,
    before="#include <algorithm>",
    dtypes="f32",
    flags=_FLAGS,
    shared="weight",
)
def normalize(x, weight, *, floor=0.0):
    peak = jnp.max(jnp.abs(x), -1, keepdims=True)
    return jnp.where(peak > floor, weight * x / peak, 0)
