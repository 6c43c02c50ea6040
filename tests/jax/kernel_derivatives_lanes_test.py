"""Strings that differentiate themselves, several rows in SIMD lanes."""

import pathlib

import inline_data  # noqa: F401  a cache of the test's own
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit

jax.config.update("jax_enable_x64", True)

_OPTIONS = {
    "derivatives": "kernel",
    "has_reference": False,
    "flags": ["-march=native", "-O1"],
}


_FILTER = """
A state = 0.5f, most = x[0];
for (int64_t i = 0; i < x.size(); ++i) {
  state += gain * (x[i] * w[i] - std::tanh(state)) + std::exp(-x[i] * x[i]);
  most = std::max(most, state);
  out[i] = kit::where(state > 1, std::log(state), state * most);
}
"""
_FILTERS = {"axes": "(n),(n)->(n)", "shared": "w", "dtypes": "f32 f64 bf16"}


def _filter_shape(x, w, *, gain=0.5):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


in_lanes = xla_ffi_kit.rows(_FILTER, lanes=True, **_FILTERS, **_OPTIONS)(
    _filter_shape
)
one_by_one = xla_ffi_kit.rows(_FILTER, **_FILTERS, **_OPTIONS)(_filter_shape)
_TOLERANCE = {"float32": 2e-5, "float64": 1e-13, "bfloat16": 2e-2}


def _operands(rows, dtype, n=21):
    rng = np.random.default_rng(rows)
    x, w = rng.uniform(-2, 2, (rows, n)), rng.uniform(0.5, 1.5, n)
    return jnp.asarray(x).astype(dtype), jnp.asarray(w).astype(dtype)


def _loss(op):
    return lambda x, w: jnp.sum(jnp.cos(op(x, w).astype(jnp.float32)))


def _close(got, want, tolerance):
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert g.dtype == w.dtype
        g, w = np.asarray(g, np.float64), np.asarray(w, np.float64)
        np.testing.assert_allclose(g, w, atol=tolerance * np.abs(w).max())


@pytest.mark.parametrize("dtype", _TOLERANCE)
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_both_modes_are_those_of_one_row_after_the_other(dtype, rows):
    x, w = _operands(rows, dtype)
    found = []
    for op in (in_lanes, one_by_one):
        slopes = jax.grad(_loss(op), (0, 1))(x, w)
        pushed = jax.jvp(op, (x, w), (jnp.cos(x), jnp.sin(w)))[1]
        found.append((slopes, pushed))
    _close(*found, _TOLERANCE[dtype])


def test_explain_says_how_rows_run():
    x, w = _operands(2, "float32")
    for op, said in ((in_lanes, "in lanes of"), (one_by_one, "row by row")):
        jax.grad(_loss(op))(x, w)
        assert said in op.spec.advanced.differentiate.explain()


def test_a_row_has_the_same_bits_beside_any_others():
    x, w = _operands(40, "float32")
    pull = jax.jit(jax.grad(_loss(in_lanes)))
    whole = np.asarray(pull(x, w))
    for begin, end in ((0, 1), (3, 12), (39, 40)):
        part = np.asarray(pull(x[begin:end], w))
        np.testing.assert_array_equal(part, whole[begin:end])


def test_a_row_alone_has_the_same_bits_where_compilers_fuse():
    """Its tape has numbers of one row; at -O1 no product is fused."""
    options = {**_OPTIONS, "flags": ["-march=native", "-O3"]}
    op = xla_ffi_kit.rows(_FILTER, lanes=True, **_FILTERS, **options)(
        _filter_shape
    )
    for dtype in ("float32", "float64"):
        x, w = _operands(17, dtype)
        pull = jax.jit(jax.grad(_loss(op)))
        whole = np.asarray(pull(x, w))
        for i in (0, 3, 16):
            np.testing.assert_array_equal(pull(x[i : i + 1], w)[0], whole[i])


def test_a_slope_that_a_row_does_not_take_may_be_infinite():
    @xla_ffi_kit.rows(
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          const A root = std::sqrt(x[i]);
          out[i] = kit::where(x[i] > 0, root, 3 * x[i]);
        }
        """,
        dtypes="f32",
        lanes=True,
        **_OPTIONS,
    )
    def rooted(x):
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    x = jnp.float32([[0, 4], [-1, 1]])
    slopes = jax.grad(lambda x: rooted(x).sum())(x)
    np.testing.assert_array_equal(slopes, [[3, 0.25], [3, 0.5]])
    pushed = jax.jvp(rooted, (x,), (jnp.ones_like(x),))[1]
    np.testing.assert_array_equal(pushed, [[3, 0.25], [3, 0.5]])


def test_what_a_row_does_not_choose_takes_nothing_from_an_infinite_slope():
    @xla_ffi_kit.rows(
        """
        out[0] = std::sqrt(kit::where(x[0] >= x[1], x[0], x[1]));
        out[1] = std::sqrt(std::max(x[0], x[1]));
        """,
        dtypes="f32",
        lanes=True,
        **_OPTIONS,
    )
    def chosen_root(x):
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    def first(x):
        return jax.grad(lambda x: chosen_root(x).sum())(x)

    x = jnp.float32([[0, -1], [-1, 0], [4, 1]])
    np.testing.assert_array_equal(
        first(x), [[np.inf, 0], [0, np.inf], [0.5, 0]]
    )
    second = jax.grad(lambda x: first(x)[:, 0].sum())(x)
    np.testing.assert_array_equal(second[2], [-0.0625, 0])
    np.testing.assert_array_equal(second[[0, 1], [1, 0]], [0, 0])


@pytest.mark.parametrize("lanes", [True, False])
def test_a_16_bit_float_beside_an_integer_stays_a_float(lanes):
    @xla_ffi_kit.rows(
        """
        out[0] = kit::where(x[0] > 0, x[0], 0) + kit::where(x[1] > 0, 1, x[1]);
        """,
        dtypes="bf16",
        lanes=lanes,
        **_OPTIONS,
    )
    def halves(x):
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    x = jnp.asarray([[0.75, -1.5]], jnp.bfloat16)
    assert halves(x)[0, 0] == -0.75
    slopes = jax.grad(lambda x: halves(x)[0, 0])(x)
    np.testing.assert_array_equal(slopes.astype(jnp.float32), [[1, 1]])


def test_a_derivative_that_does_not_compile_in_lanes_is_an_error():
    """The same index for all rows, but not for numbers with derivatives."""

    @xla_ffi_kit.rows(
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          out[i] = x[i] * x[i] * (at[0] > 0 ? 2 : 1);
        }
        """,
        axes="(n),(k)->(n)",
        shared="at",
        dtypes="f32",
        lanes=True,
        **_OPTIONS,
    )
    def chosen(x, at):
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    x, at = jnp.float32([[1, 2, 3]]), jnp.float32([1])
    np.testing.assert_array_equal(chosen(x, at), [[2, 8, 18]])
    lines = pathlib.Path(__file__).read_text().splitlines()
    line = next(i for i, text in enumerate(lines, 1) if "? 2 : 1" in text)
    with pytest.raises(xla_ffi_kit.errors.BuildError) as caught:
        jax.grad(lambda x: chosen(x, at).sum())(x)
    said = str(caught.value)
    assert said.startswith("chosen.vjp1: does not compile: ")
    assert f"kernel_derivatives_lanes_test.py:{line}:" in said
    assert "choose with kit::where" in said


@pytest.mark.parametrize("lanes", [False, True])
def test_a_tape_grows(lanes):
    """By few entries and by many; then it serves a short row."""

    @xla_ffi_kit.rows(
        "A s = 0; for (auto v : x) s = v * s + 1; out[0] = s;",
        dtypes="f32",
        lanes=lanes,
        **_OPTIONS,
    )
    def folded(x):
        return jax.ShapeDtypeStruct((*x.shape[:-1], 1), x.dtype)

    gradient = jax.jit(jax.grad(lambda x: folded(x).sum()))
    for rows in (1, 2, 1):
        # A new thread's tape is full behind 1,484 steps.
        for size in (*range(1478, 1490), 20_000, 3):
            got = gradient(jnp.ones((rows, size), jnp.float32))
            want = np.broadcast_to(np.arange(size, dtype=np.float32), got.shape)
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("lanes", [False, True])
def test_statements_of_any_length(lanes):
    most = 15
    lines = [
        f"out[{k}] = " + " + ".join(f"{j + 1} * x[{j}]" for j in range(k + 1))
        for k in range(most)
    ]

    @xla_ffi_kit.rows(
        ";\n".join(lines) + ";", dtypes="f32", lanes=lanes, **_OPTIONS
    )
    def sums(x):
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    for rows in (1, 2):
        x = jnp.ones((rows, most), jnp.float32)
        for k in range(most):
            slopes = jax.grad(lambda x, k=k: sums(x)[:, k].sum())(x)
            want = np.where(np.arange(most) <= k, np.arange(most) + 1, 0)
            np.testing.assert_array_equal(slopes, [want] * rows)
