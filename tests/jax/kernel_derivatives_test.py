"""`derivatives="kernel"`: strings that differentiate themselves."""

import functools

import inline_data  # noqa: F401  a cache of the test's own
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit.strings import operation
from xla_ffi_kit.testing import Case, check_op

_OPTIONS = {"derivatives": "kernel", "flags": ["-O1"]}
elementwise = functools.partial(xla_ffi_kit.elementwise, **_OPTIONS)
rows = functools.partial(xla_ffi_kit.rows, **_OPTIONS)


@elementwise("x * std::tanh(scale * y) + x * x * y", dtypes="f32 s32")
def gate(x, y, *, scale=1.0):
    if x.dtype == jnp.int32:  # Which the string rounds once.
        return x * x * y + x * jnp.tanh(scale * y).astype(x.dtype)
    return x * jnp.tanh(scale * y) + x * x * y


@rows(
    """
    A state = 0;
    for (int64_t i = 0; i < x.size(); ++i) {
      state = decay * state + x[i] * x[i] * weight[i];
      wave[i] = std::sin(state);
    }
    total[0] = state > 1 ? state * state : std::exp(state);
    """,
    results="wave total",
    shared="weight",
    dtypes="f32",
)
def decaying(x, weight, *, decay=0.5):
    def step(state, value):
        state = (decay * state + value).astype(x.dtype)
        return state, jnp.sin(state)

    start = jnp.zeros(x.shape[:-1], x.dtype)
    values = jnp.moveaxis(x * x * weight, -1, 0)
    state, wave = jax.lax.scan(step, start, values)
    total = jnp.where(state > 1, state * state, jnp.exp(state))
    return jnp.moveaxis(wave, 0, -1), total[..., None]


# kernel_derivatives_contract_test has more, of 16 bits and without a reference.
def test_contract():
    # Below, derivatives of any order are.
    case = Case("f32[2,3]", "f32[2,3]", scale=0.5)
    print(check_op(gate, [case], skip=("second order", "jacobians")))


def _loss(f, *x):
    return sum(jnp.sum(jnp.sin(y) ** 2) for y in jax.tree.leaves(f(*x)))


def test_any_order_of_elements_without_a_reference():
    @elementwise("x * x * x", dtypes="f32", has_reference=False)
    def cube(x):
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    f = cube
    for want in (3 * 4, 6 * 2, 6):
        f = jax.grad(f)
        assert f(jnp.float32(2)) == want


def test_third_order_of_rows():
    x, w = jnp.linspace(-1, 1, 6), jnp.linspace(0.5, 1, 6)

    def third(f):
        loss = functools.partial(_loss, f)
        for _ in range(2):
            loss = functools.partial(_square_of_gradient, loss)
        return jax.jit(jax.grad(loss))(x, w)

    np.testing.assert_allclose(
        third(decaying), third(decaying.reference), rtol=1e-4, atol=1e-4
    )


def _square_of_gradient(loss, *x):
    return jnp.sum(jax.grad(loss)(*x) ** 2)


def _of_series(axes, write, **options):
    """A filter of each row with two parameters, which all rows share."""
    code = f"""
    A state = 0, sum = 0;
    for (int64_t i = 0; i < x.size(); ++i) {{
      state = w[0] * state + std::sin(w[1] * x[i]);
      sum += state * state;
      {write}
    }}
    """
    options |= {"axes": axes, "shared": "w", "has_reference": False}
    wave = axes.endswith("(n)")
    return rows(code, dtypes="f32", results="out", **options)(
        lambda x, w: jax.ShapeDtypeStruct(x.shape[: -1 + wave or None], x.dtype)
    )


def _filtered(x, w):
    states = [jnp.zeros(x.shape[:-1])]
    for i in range(x.shape[-1]):
        states.append(w[..., 0] * states[-1] + jnp.sin(w[..., 1] * x[..., i]))
    return jnp.stack(states[1:], -1)


def _calls(f, *x):
    """How often the program of a loss and its gradient runs a string."""
    compiled = jax.jit(f).lower(*x).compile()
    return compiled.as_text().count("custom-call(")


@pytest.mark.parametrize("lanes", [False, True])
def test_value_and_gradient_run_the_string_once(lanes):
    score = _of_series("(n),(k)->()", "out[0] = std::sqrt(sum);", lanes=lanes)
    wave = _of_series("(n),(k)->(n)", "out[i] = state;", lanes=lanes)
    x = jnp.sin(jnp.arange(24.0)).reshape(3, 8)
    w = jnp.array([0.5, 0.9])

    def size(x, w):
        return jnp.sqrt(jnp.sum(_filtered(x, w) ** 2, -1))

    def agree(got, want):
        for g, e in zip(*map(jax.tree.leaves, (got, want)), strict=True):
            np.testing.assert_allclose(g, e, rtol=2e-4, atol=2e-5)

    for op, want, argnums, runs in (
        (score, size, 0, 1),
        (score, size, 1, 1),
        (score, size, (0, 1), 1),
        (wave, _filtered, 1, 2 if lanes else 1),
        (wave, _filtered, (0, 1), 2),  # A Jacobian would be large.
    ):
        of = [functools.partial(_loss, f) for f in (op, want)]
        both = [jax.value_and_grad(f, argnums) for f in of]
        assert _calls(both[0], x, w) == runs
        agree(*(f(x, w) for f in both))
        each = [jax.vmap(f, (0, 0)) for f in both]
        agree(*(f(jnp.stack([x, 2 * x]), jnp.stack([w, w / 2])) for f in each))
        if argnums == (0, 1) and not lanes:
            agree(*(jax.jvp(f, (x, w), (x, 2 * w)) for f in of))
            agree(*(jax.hessian(f, argnums)(x[0], w) for f in of))
    assert _calls(score, x, w) == _calls(wave, x, w) == 1
    # The slope of what nobody reads is infinite.
    kept = jax.grad(
        lambda x: jnp.where(jnp.arange(3) > 0, score(x, w), 0).sum()
    )
    assert np.isfinite(kept(x.at[0].set(0))).all()


def test_it_is_compiled_when_it_is_asked_for(monkeypatch):
    loaded = []
    load = operation.load

    def logged(source, *rest):
        loaded.append(source.name)
        return load(source, *rest)

    monkeypatch.setattr(operation, "load", logged)

    # The functions of std:: are there in a template of the author's, too.
    before = "template <typename X> X up(const X& x) { return std::exp(x); }"

    @elementwise("up(x) * y", dtypes="f32", before=before)
    def product(x, y):
        return jnp.exp(x) * y

    x = jnp.ones(3)
    product(x, x)
    assert loaded == ["product"]
    gradient = jax.jit(jax.grad(lambda x: product(x, x + 1).sum()))
    np.testing.assert_allclose(gradient(x), 3 * np.e * np.ones(3), rtol=1e-6)
    # Neither the other mode nor the slope that nobody needs.
    assert loaded == ["product", "product.vjp3"]


def test_results_of_another_rank_have_another_derivative():
    @rows(
        "A s = 0; for (auto v : x) s += v; out[0] = s * s;",
        dtypes="f32",
        has_reference=False,
    )
    def total(x, *, keep=False):
        return jax.ShapeDtypeStruct((1,) if keep else (), x.dtype)

    x = jnp.arange(6.0).reshape(2, 3)
    for keep in (False, True):
        slope = jax.grad(lambda x, keep=keep: total(x, keep=keep).sum())(x)
        np.testing.assert_array_equal(slope, [[6] * 3, [24] * 3])


_DOUBLES = (
    "x * x * 1.05e-34 * 1.05e-34 / 1.05e-68",
    "kit::where(x >= 0.7, 10 * x, -x)",  # as a float, 0.7 is less
    "std::max(std::fmin(x * 1e-50, 0.3), 0.0) * 1e50",
    "std::pow(x, 2) * 1e-60 * 1e60",
)


def _doubles(x):
    return (jax.ShapeDtypeStruct(x.shape, x.dtype),) * len(_DOUBLES)


_OF_DOUBLES = {
    "elementwise": elementwise(*_DOUBLES, dtypes="f32", has_reference=False),
    "rows": rows(
        "const auto scaled = v[0] * 1.05e-34;\n"
        "const A x = v[0];\nw0[0] = scaled * scaled / 1.05e-68;\n"
        + "\n".join(f"w{k + 1}[0] = {d};" for k, d in enumerate(_DOUBLES[1:])),
        results="w0 w1 w2 w3",
        dtypes="f32",
        has_reference=False,
        lanes=False,
    ),
}


@pytest.mark.parametrize("form", _OF_DOUBLES)
def test_a_double_beside_a_float_is_a_double(form):
    """No float is as small as these squares, in values and in slopes."""
    named = {
        "elementwise": lambda x: _doubles(x),
        "rows": lambda v: _doubles(v),
    }
    op = _OF_DOUBLES[form](named[form])
    x = jnp.float32([0.7])
    one = jnp.ones_like(x)

    def first(x):
        return jax.jvp(op, (x,), (one,))[1]

    def pulled(x):
        return [jax.grad(lambda x, k=k: op(x)[k].sum())(x) for k in range(4)]

    of_square = 1.05e-34**2 / 1.05e-68
    want = [
        [of_square * 0.49, -0.7, 0.7, 0.49],
        [of_square * 1.4, -1, 1, 1.4],
        [of_square * 2, 0, 0, 2],
    ]
    results = [op(x), first(x), jax.jvp(first, (x,), (one,))[1]]
    np.testing.assert_allclose(np.ravel(results), np.ravel(want), rtol=1e-6)
    np.testing.assert_allclose(np.ravel(pulled(x)), want[1], rtol=1e-6)


def test_what_does_not_change_has_no_part_in_an_infinite_slope():
    """A constant that is declared, and an operand that is not active."""

    @rows(
        """
        A s = 0;
        const A two = 2;
        for (int64_t i = 0; i < x.size(); ++i) {
          out[i] = std::pow(x[i], two) / (std::sqrt(w[i]) + 1) + std::sqrt(s);
          s += 1;
        }
        """,
        dtypes="f32",
        has_reference=False,
        lanes=False,
    )
    def steps(x, w):
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    x, w = jnp.float32([-2, 3]), jnp.float32([0, 4])
    one = jnp.ones_like(x)

    def first(x):
        return jax.grad(lambda x: steps(x, w).sum())(x)

    np.testing.assert_array_equal(first(x), [-4, 2])
    pushed = jax.jvp(lambda x: steps(x, w), (x,), (one,))[1]
    np.testing.assert_array_equal(pushed, [-4, 2])
    for second in (
        jax.jvp(first, (x,), (one,))[1],
        jax.grad(lambda x: first(x).sum())(x),
    ):
        np.testing.assert_allclose(second, [2, 2 / 3], rtol=1e-6)


def test_shared_slopes_are_the_same_bits_in_every_call():
    """They are summed in blocks of rows, whatever thread computes these."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(301, 40)), jnp.float32)
    w = jnp.asarray(rng.uniform(size=40), jnp.float32)

    @jax.jit
    def slope(x, w):
        return jax.grad(lambda w: _loss(decaying, x, w))(w)

    first = np.asarray(slope(x, w))
    for _ in range(3):
        np.testing.assert_array_equal(first, np.asarray(slope(x, w)))
    want = jax.grad(lambda w: _loss(decaying.reference, x, w))(w)
    np.testing.assert_allclose(first, want, rtol=1e-4)


@pytest.mark.parametrize(
    ("lanes", "said"),
    [
        (
            False,
            'folded.gradient1: derivatives="kernel": the tape of one row needs '
            "more than 1000000 bytes; take shorter rows, or the reference's "
            "derivative, or set XLA_FFI_KIT_TAPE_BYTES",
        ),
        (
            True,
            "rows in lanes needs more than 1000000 bytes; take shorter rows, "
            "lanes=False, or",
        ),
    ],
)
def test_a_tape_over_its_bound_is_an_error(monkeypatch, lanes, said):
    monkeypatch.setenv("XLA_FFI_KIT_TAPE_BYTES", "1000000")

    @rows(
        "A s = 0; for (auto v : x) s = s * v + 1; out[0] = s;",
        dtypes="f32",
        has_reference=False,
        lanes=lanes,
    )
    def folded(x):
        return jax.ShapeDtypeStruct((1,), x.dtype)

    gradient = jax.jit(jax.grad(lambda x: folded(x)[..., 0].sum()))
    np.testing.assert_array_equal(gradient(jnp.ones((2, 3))), 2 * [[0, 1, 2]])
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(gradient(jnp.ones((2, 200_000))))
    assert said in str(caught.value)
    np.testing.assert_array_equal(gradient(jnp.ones((2, 3))), 2 * [[0, 1, 2]])


def test_cotangents_of_one_number_add_up():
    """Two elements of a result that are one variable of the kernel."""
    twice = rows(
        """
        const A value = 2 * x[0];
        for (int64_t i = 0; i < x.size(); ++i) out[i] = value;
        """,
        dtypes="f32",
    )(lambda x: jnp.broadcast_to(2 * x[..., :1], x.shape))
    weight = jnp.arange(1.0, 4.0)
    slope = jax.grad(lambda x: (twice(x) * weight).sum())(jnp.ones(3))
    assert slope.tolist() == [12, 0, 0]
