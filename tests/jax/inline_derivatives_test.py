"""`inline(derivatives="kernel")`: functions that differentiate themselves."""

import functools

import inline_data  # noqa: F401  a cache of the test's own
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.testing import Case, check_op

inline = functools.partial(
    xla_ffi_kit.inline, derivatives="kernel", flags=["-O1"]
)


_GATHER = functools.partial(
    inline,
    r"""
    template <typename T>
    const char* gather(kit::In<T> x, kit::In<int32_t> at,
                       kit::Out<int32_t> signs, double decay, kit::Threads,
                       double bias, kit::In<T> weight, kit::Out<T> y) {
      if (decay < 0) return "decay is negative";
      for (int64_t r = 0; r < x.rows(); ++r) {
        kit::Accumulate<T> state = 0;
        for (int64_t i = 0; i < x.columns(); ++i) {
          const int64_t from = at.row(r)[i] & 1;
          state = decay * state + bias * x.row(r)[i] * std::exp(x.row(r)[from]);
          y.row(r)[i] = state * weight[i];
          signs.row(r)[i] = int32_t(kit::value(state) > 0);
        }
      }
      return nullptr;
    }""",
    axes="(n),(n),(n)->(n),(n)",
    shared="weight",
)


@_GATHER(dtypes="f32")
def gather(x, at, weight, *, decay=0.5, bias=2.0):
    terms = bias * x * jnp.exp(jnp.take_along_axis(x, at & 1, -1))
    state, states = jnp.zeros(x.shape[:-1], jnp.float32), []
    for i in range(x.shape[-1]):
        state = decay * state + terms[..., i]
        states.append(state)
    stacked = jnp.stack(states, -1)
    return (stacked > 0).astype(jnp.int32), (stacked * weight).astype(x.dtype)


X = jnp.float32([[0.5, -1.25, 2, 0.75], [1, 0.25, -0.5, 0.125]])
AT = jnp.int32([[0, 2, 1, 3], [1, 1, 0, 2]])
WEIGHT = jnp.float32([1, 0.5, 2, -1])


def _loss(f):
    return lambda *x: jnp.sum(jnp.sin(f(*x)[1]) ** 2)


def test_contract():
    """Of an integer operand and result, a shared operand and attributes.

    These are not in alphabetical order, in which a call has them.
    """
    operands = ("f32[2,4]", "s32[2,4]", "f32[4]")
    report = check_op(
        gather,
        [Case(*operands, decay=0.5, bias=-0.75)],
        skip=["other lengths"],  # It reads two elements of each row.
    )
    passed = {row.check for row in report.rows if row.status == "passed"}
    assert {"jvp", "grad", "second order", "jacobians"} <= passed
    assert "vmap of grad" in passed


def test_16_bits_are_recorded_as_floats():
    x, weight = X.astype(jnp.bfloat16), WEIGHT.astype(jnp.bfloat16)
    of_16_bits = _GATHER(dtypes="bf16")(gather.reference)
    got = jax.grad(_loss(of_16_bits))(x, AT, weight)
    want = jax.grad(_loss(gather))(X, AT, WEIGHT)
    assert got.dtype == jnp.bfloat16
    np.testing.assert_allclose(
        got.astype(jnp.float32), want, rtol=0.1, atol=0.1
    )


def test_its_error_is_that_of_the_derivative():
    # Alone: in a program the error of the value comes first.
    pull = gather.spec.advanced.differentiate.vjp((0,), [1])
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(pull(X, AT, WEIGHT, X, decay=-1.0))
    assert "gather.vjp1: decay is negative" in str(caught.value)


def test_without_a_reference_and_with_two_types():
    @inline(
        """
        template <typename T, typename U>
        void dot(kit::In<T> x, kit::In<U> y, kit::Out<U> out) {
          for (int64_t r = 0; r < x.rows(); ++r) {
            kit::Accumulate<U> sum = 0;
            for (int64_t i = 0; i < x.columns(); ++i)
              sum += x.row(r)[i] * y.row(r)[i];
            out[r] = sum * sum;
          }
        }""",
        dtypes="bf16,f32",
        kernel_axes=1,
        has_reference=False,
        flags=["-O1"],
    )
    def dot(x, y):
        return jax.ShapeDtypeStruct((), y.dtype)

    x, y = jnp.bfloat16([1, 2]), jnp.float32([3, -4])
    dx, dy = jax.grad(dot, (0, 1))(x, y)
    assert (dx.dtype, dy.dtype) == (jnp.bfloat16, jnp.float32)
    np.testing.assert_array_equal(dx.astype(jnp.float32), -10 * y)
    np.testing.assert_array_equal(dy, [-10, -20])


def test_integers_have_no_derivative():
    _, slope, _ = jax.grad(_loss(gather), (0, 1, 2), allow_int=True)(
        X, AT, WEIGHT
    )
    assert slope.dtype == jax.dtypes.float0


def test_an_operand_of_a_fixed_type_has_no_derivative():
    @inline(
        """
        template <typename T>
        void scaled(kit::In<T> x, kit::In<float> by, kit::Out<T> y) {
          for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] * by[i];
        }""",
        dtypes="f32",
        kernel_axes=0,
        has_reference=False,
        flags=["-O0"],
    )
    def scaled(x, by):
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    x = jnp.float32([1, 2])
    slope = jax.grad(lambda x, by: scaled(x, by).sum())
    np.testing.assert_array_equal(slope(x, 3 * x), 3 * x)
    with pytest.raises(BuildError) as caught:
        jax.grad(lambda by: scaled(x, by).sum())(x)
    assert (
        "operand by: expected kit::In<T> of a type that dtypes names, as the "
        "derivative with respect to it is wanted, got kit::In of another type"
    ) in str(caught.value)
