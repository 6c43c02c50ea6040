"""Operations from strings: what they compute, and what a mistake says."""

import inspect
import pathlib
import pickle
import platform

import inline_data
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import raises

import xla_ffi_kit
from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.testing import Case, check_op

_FLAGS = ["-O1"]  # They are compiled in each process, for small arrays.


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
    """x / sqrt(mean(x^2) + eps)."""
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


_AVX2 = """
void avx2(kit::In<float> x, kit::Out<float> y) {
  y[0] = y[1] = x[0];
#ifdef __AVX2__
  y[1] += 1;
#endif
}"""


@pytest.mark.parametrize("flag", ["-lm", "-march=x86-64"])
def test_flags_add_to_the_defaults(flag):
    """And a later one replaces the default."""
    if platform.machine() != "x86_64":
        pytest.skip("another processor")
    has_avx2 = "avx2" in pathlib.Path("/proc/cpuinfo").read_text()

    @xla_ffi_kit.inline(_AVX2, kernel_axes=1, flags=["-O0", flag])
    def avx2(x):
        return x

    first, second = avx2(jnp.zeros(2))
    assert second - first == (has_avx2 and flag == "-lm")


# inline_derivatives_test and kernel_derivatives_test have more of them.
def test_the_contract_of_operations_holds():
    # Derivatives are those of the reference.
    skip = ("second order", "jacobians", "control flow")
    factors = (1.0, 0.5, 2.0)
    case = Case("float32[2,3]", factors=factors, order="rising", negate=True)
    report = check_op(polynomial, [case], skip=skip)
    assert "handler" in {
        row.check for row in report.rows if row.status == "passed"
    }


def test_it_looks_like_the_function_it_decorates():
    assert rms_norm.__name__ == "rms_norm"
    assert rms_norm.__doc__ == "x / sqrt(mean(x^2) + eps)."
    assert str(inspect.signature(rms_norm)).startswith("(x, *, eps=1e-06")
    assert pickle.loads(pickle.dumps(rms_norm)) is rms_norm
    x = np.float32([-1, 0, 2])
    np.testing.assert_array_equal(rms_norm(x), rms_norm(x, eps=1e-6))
    np.testing.assert_array_equal(rms_norm(x=x), rms_norm(x))


def test_another_dtype_is_refused_before_anything_is_compiled():
    said = "rms_norm: operand x: expected dtype float32, bfloat16, got int32"
    with raises(TypeError, said):
        jax.jit(rms_norm).trace(jnp.arange(3, dtype=jnp.int32))


def test_rows_are_spread_over_threads():
    # Large enough for the kit's parallel loop, which the library borrows.
    x = np.random.default_rng(0).normal(size=(512, 2048)).astype(np.float32)
    y = rms_norm(x)
    want = x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(y, want, rtol=1e-5)
    library = rms_norm.spec.libraries[0]
    assert library.parallel_for == xla_ffi_kit.ops.LIBRARIES[0].parallel_for
    assert library.parallel_for


def test_an_operation_without_operands():
    @xla_ffi_kit.inline(
        "void iota(int64_t n, kit::Out<int32_t> y) {"
        " for (int64_t i = 0; i < n; ++i) y[i] = int32_t(i); }",
        kernel_axes=0,
    )
    def iota(*, n):
        return jnp.arange(n, dtype=jnp.int32)

    np.testing.assert_array_equal(iota(n=4), np.arange(4))


@pytest.mark.parametrize("write", ["inline", "rows"])
def test_an_attribute_that_decides_types_alone(write):
    def first(x, w, b, *, n):
        return (w * x + b)[..., :n]

    options = {
        "attributes": {"n": None},
        "axes": "(m),(),()->(n)",
        "shared": "w b",  # two names
    }
    if write == "rows":
        decorate = xla_ffi_kit.rows(
            "for (int64_t i = 0; i < y.size(); ++i) y[i] = w[0] * x[i] + b[0];",
            results="y",
            dtypes="f32",
            **options,
        )
    else:
        decorate = xla_ffi_kit.inline(
            """
            void first(kit::In<float> x, kit::In<float> w, kit::In<float> b,
                       kit::Out<float> y) {
              for (int64_t r = 0; r < y.rows(); ++r)
                for (int64_t i = 0; i < y.columns(); ++i)
                  y.row(r)[i] = w[0] * x.row(r)[i] + b[0];
            }""",
            **options,
        )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    got = decorate(first)(x, 2.0, 1.0, n=2)
    np.testing.assert_array_equal(got, 2 * x[:, :2] + 1)


def test_an_axis_that_the_array_has_not():
    @xla_ffi_kit.inline(
        "void size(kit::In<float> x, int64_t axis, kit::Out<int64_t> y) {"
        " y[0] = x.dim(axis); }",
        kernel_axes=2,
        flags=["-O0"],
    )
    def size(x, *, axis):
        return jnp.zeros(x.shape[:-2], np.int64)

    with jax.enable_x64(True):
        x = jnp.ones((2, 3), np.float32)
        assert [int(size(x, axis=i)) for i in (-2, -1, 0, 1)] == [2, 3, 2, 3]
        for axis in (2, -3):
            with pytest.raises(
                jax.errors.JaxRuntimeError, match="size: dim: expected an axis"
            ):
                jax.block_until_ready(size(x, axis=axis))


def test_what_the_function_returns_or_throws_is_the_calls_error():
    @xla_ffi_kit.inline(
        r"""
#include <stdexcept>
const char* failing(kit::In<float> x, kit::Out<float> y) {
  static char text[1400] = "e";
  for (int i = 0; i < 1398; ++i) text[i + 1] = "é"[i % 2];
  if (x[0] == 0) throw std::runtime_error("thrown");
  return x[0] == 1 ? "returned, é" : text;
}""",
        kernel_axes=0,
        flags=["-O0"],
    )
    def failing(x):
        return x

    # What is too long is cut between characters, or Python could not read it.
    for number, text in enumerate(("thrown", "returned, é", "eéé")):
        with pytest.raises(
            jax.errors.JaxRuntimeError, match=f"failing: {text}"
        ):
            jax.block_until_ready(failing(np.float32(number)))


def test_values_that_attributes_cannot_have():
    @xla_ffi_kit.elementwise(
        "x + float(a) + text.size() + b[0]",
        dtypes="f32",
        attributes={"a": "u64", "b": ("u64",)},
        flags=["-O0"],
    )
    def f(x, *, a=1, b=(2**63,), text=""):
        return x

    x = np.float32(0)
    assert f(x, a=2**63 - 1, text="é") == 2.0**64
    with pytest.raises(ValueError, match="attribute a: expected at most 922"):
        f(x, a=2**63)


# --- Mistakes -----------------------------------------------------------------


GOOD = """
void f(kit::In<float> x, double a, kit::Out<float> y) {}"""


def error_of(code, **options):
    with pytest.raises(BuildError) as caught:
        options = {"kernel_axes": 0, "flags": ["-O0"], **options}

        @xla_ffi_kit.inline(code, **options)
        def f(x, *, a=1.0):
            return x

    return str(caught.value)


no_compiler = inline_data.no_compiler


def test_without_a_compiler(no_compiler, monkeypatch):
    assert error_of(GOOD) == (
        "f: there is no C++ compiler; install one (`apt install g++`, or `pip "
        "install ziglang`) or set CXX, or pass fallback='reference'"
    )

    @xla_ffi_kit.inline(GOOD, kernel_axes=0, fallback="reference")
    def f(x, *, a=1.0):
        return a * x

    assert f(np.float32(2)) == 2
    assert "custom_call" not in jax.jit(f).lower(jnp.ones(3)).as_text()
    monkeypatch.setenv("CXX", "no-such-compiler")
    reason = (
        "the environment variable CXX is 'no-such-compiler', but there is no "
    )
    reason += "program 'no-such-compiler'; correct it, or unset it"
    assert error_of(GOOD) == f"f: {reason}, or pass fallback='reference'"
    assert error_of(GOOD, has_reference=False) == f"f: {reason}"
