"""kit::scan: a loop with a state, whose gradient has the loop's speed.

idioms_test has what people write in its steps, in every form.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inline_data import close, error_of, use_compiler
from jax import lax

import xla_ffi_kit

_KERNEL = {"derivatives": "kernel", "flags": ["-march=native", "-O1"]}
rows = functools.partial(xla_ffi_kit.rows, **_KERNEL)

_FILTER = """
A mean = 0, spread = 1;
kit::scan(x.size(), mean, spread,
          [&]<typename A>(int64_t i, A& mean, A& spread) {
  const A off = x[i] - mean;
  mean += gain[0] * off;
  spread = gain[1] * spread + off * off * gain[2];
  out[i] = off / std::sqrt(spread);
  total[0] = mean * spread;
});
"""


def _filter(x, gain):
    def one(x):
        def step(carry, value):
            mean, spread = carry
            off = value - mean
            mean = mean + gain[0] * off
            spread = gain[1] * spread + off * off * gain[2]
            return (mean, spread), (off / jnp.sqrt(spread), mean * spread)

        start = jnp.zeros((), x.dtype), jnp.ones((), x.dtype)
        out, totals = lax.scan(step, start, x)[1]
        return out, totals[-1:]

    return jnp.vectorize(one, signature="(n)->(n),(k)")(x)


def _of(compiler_options=()):
    return rows(
        _FILTER,
        results="out total",
        shared="gain",
        dtypes="f32 f64",
        **dict(compiler_options),
    )(_filter)


def _operands(dtype="float32", *shape):
    rng = np.random.default_rng(3)
    x = rng.normal(size=shape or (3, 40)).astype(dtype)
    return x, np.array([0.25, 0.5, 0.75], dtype)


def _loss(f, *operands):
    out, total = f(*operands)
    return jnp.sum(jnp.sin(out)) + jnp.sum(total**2)


def _gradient(f, *operands):
    return jax.jit(jax.grad(functools.partial(_loss, f), (0, 1)))(*operands)


@pytest.fixture(scope="module")
def filtered():
    return _of()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_is_the_reference(filtered, dtype):
    with jax.enable_x64(dtype == "float64"):
        operands = _operands(dtype)
        tolerance = 1e-4 if dtype == "float32" else 1e-11
        close(filtered(*operands), _filter(*operands), tolerance)
        close(
            _gradient(filtered, *operands),
            _gradient(_filter, *operands),
            tolerance,
        )


def test_second_order(filtered):
    operands = _operands()

    def along(f):
        one = jnp.ones_like(operands[0])
        return jax.jvp(
            lambda x: _gradient(f, x, operands[1]), (operands[0],), (one,)
        )[1]

    def of_gradient(f):
        return jax.grad(
            lambda x: sum(
                jnp.sum(jnp.cos(g)) for g in _gradient(f, x, operands[1])
            )
        )(operands[0])

    close(along(filtered), along(_filter), 2e-3)
    close(of_gradient(filtered), of_gradient(_filter), 2e-3)


def test_lanes():
    op = _of({"lanes": True})
    operands = _operands("float32", 19, 40)
    close(_gradient(op, *operands), _gradient(_filter, *operands), 1e-3)


@pytest.mark.parametrize("compiler", ["g++", "clang++", "zig"])
def test_every_compiler(compiler, monkeypatch):
    use_compiler(compiler, monkeypatch)
    operands = _operands()
    # Without AVX, which zig does not do without, a number's slopes are in
    # several vectors.
    for machine in ("native", "x86-64")[: 1 + (compiler != "zig")]:
        op = _of({"flags": [f"-march={machine}", "-O2"]})
        close(_gradient(op, *operands), _gradient(_filter, *operands), 1e-4)


_ROOTS = """
A root = 0, total = 0;
kit::scan(x.size(), root, total,
          [&]<typename A>(int64_t i, A& root, A& total) {
  root = std::sqrt(x[i]);
  total += root + x[i] * x[0];
});
out[0] = total;
"""


def test_an_infinite_slope_is_that_of_its_number_alone():
    def roots(x):
        return (jnp.sqrt(x) + x * x[..., :1]).sum(-1, keepdims=True)

    op = rows(_ROOTS, dtypes="f32")(roots)
    x = jnp.float32([[4, 1, 0, 9], [1, 1, 4, 1]])
    slopes = jax.grad(lambda x: op(x).sum())(x)
    close(slopes, jax.grad(lambda x: roots(x).sum())(x), 1e-6)
    assert np.isposinf(slopes[0, 2])


def test_many_steps_and_more_results_than_one_a_step():
    """Its memory grows, where the scan begins and for each row of slopes."""
    code = """
    A s = 0;
    kit::scan(x.size(), s, [&]<typename A>(int64_t i, A& s) {
      s += x[i] / 1024;
      for (int k = 0; k < 5; ++k) out[5 * i + k] = s * k;
    });
    """

    def spread(x):
        s = jnp.cumsum(x / 1024, -1)
        return (s[..., None] * jnp.arange(5.0)).reshape(*x.shape[:-1], -1)

    op = rows(code, dtypes="f32")(spread)
    for n in (3, 20_000, 40):
        x = jnp.linspace(0, 1, 2 * n, dtype=jnp.float32).reshape(2, n)
        weight = jnp.cos(jnp.arange(10.0 * n)).reshape(2, -1)
        got, want = (
            jax.grad(lambda x, f=f, w=weight: (f(x) * w).sum())(x)
            for f in (op, spread)
        )
        close(got, want, 1e-4)


def test_variables_have_in_the_end_what_the_steps_made():
    code = """
    A s[2] = {0, 1}, most = 0;
    kit::scan(x.size(), s, most,
              [&]<typename A>(int64_t i, A (&s)[2], A& most) {
      s[0] += x[i];
      s[1] *= x[i];
      most = std::max(most, x[i]);
    });
    out[0] = s[0] * s[1] + most;
    """

    def made(x):
        return x.sum(-1, keepdims=True) * x.prod(-1, keepdims=True) + x.max(
            -1, keepdims=True
        )

    op = rows(code, dtypes="f32")(made)
    x = jnp.float32([[0.5, 2, 1.5], [3, 0.25, 1]])
    close(op(x), made(x), 1e-6)
    slopes = (jax.grad(lambda x, f=f: f(x).sum())(x) for f in (op, made))
    close(*slopes, 1e-5)


def test_a_scan_of_no_steps():
    code = """
    A s = 2;
    kit::scan(x.size() - 40, s,
              [&]<typename A>(int64_t i, A& s) { s *= x[i]; });
    for (int64_t i = 0; i < x.size(); ++i) out[i] = s * x[i];
    """

    def twice(x):
        return 2 * x

    op = rows(code, dtypes="f32")(twice)
    for n in (40, 30):
        x = jnp.arange(1, n + 1, dtype=jnp.float32)
        np.testing.assert_array_equal(op(x), twice(x))
        slopes = jax.grad(lambda x: op(x).sum())(x)
        np.testing.assert_array_equal(slopes, np.full(n, 2))


def test_an_inline_string():
    @xla_ffi_kit.inline(
        """
        template <typename T>
        void decay(kit::In<T> x, kit::Out<T> y) {
          using A = kit::Accumulate<T>;
          for (int64_t r = 0; r < x.rows(); ++r) {
            A s = 0;
            kit::scan(x.columns(), s, [&]<typename A>(int64_t i, A& s) {
              s = s / 2 + x.row(r)[i] * x.row(r)[i];
              y.row(r)[i] = T(s);
            });
          }
        }""",
        kernel_axes=1,
        dtypes="f32",
        **_KERNEL,
    )
    def decay(x):
        return lax.associative_scan(
            lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]),
            (jnp.full_like(x, 0.5), x * x),
            axis=-1,
        )[1]

    x = jnp.linspace(-1, 1, 14, dtype=jnp.float32).reshape(2, 7)
    close(
        jax.grad(lambda x: (decay(x) ** 2).sum())(x),
        jax.grad(lambda x: (decay.reference(x) ** 2).sum())(x),
        1e-5,
    )


def test_a_step_that_is_no_template():
    said = error_of(
        xla_ffi_kit.rows(
            "A s = 0;\n"
            "kit::scan(x.size(), s, [&](int64_t i, A& s) { out[i] = s; });",
            dtypes="f32",
        )
    )
    assert "the step is a template" in said


def test_a_number_of_the_loop_in_a_step():
    op = rows(
        """
        A s = 0;
        const auto twice = [](A s) { return A(2 * s); };
        kit::scan(x.size(), s, [&]<typename A>(int64_t i, A& s) {
          out[i] = s = twice(s + x[i]);  // here
        });
        """,
        dtypes="f32",
        has_reference=False,
    )(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
    with pytest.raises(Exception, match="a type of their own") as caught:
        jax.grad(lambda x: op(x).sum())(jnp.ones(3))
    assert "scan_test.py" in str(caught.value)
