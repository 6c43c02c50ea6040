"""Strings of `rows` in SIMD lanes, and their derivatives.

idioms_test has what people write, and function_slopes_test every function.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inline_data import close, use_compiler

import xla_ffi_kit

jax.config.update("jax_enable_x64", True)

_FILTER = """
A state = 0;
const A first = x[0];
for (int64_t i = 0; i < x.size(); ++i)
  state = level[i] = a * x[i] * w[i] + (1 - a) * state + shift[0];
for (int64_t i = x.size() - 1; i > 0; --i)
  level[i] = level[i] + kit::where((level[i - 1] > first) & (x[i] != 2),
                                   0.5f * x[0], first);
change[0] = std::max(state, A(0)) / x.size();
"""
_OPTIONS = {
    "axes": "(n),(n),(k)->(n),()",
    "shared": "w",
    "results": ["level", "change"],
    "dtypes": "f32 f64 bf16 f16 s32",
    "has_reference": False,
}


_FLAGS = {"flags": ["-march=native", "-O1"]}
_SHAPE = {"dtypes": "f32", "has_reference": False, **_FLAGS}


def _same(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def _shapes(x, w, shift, *, a=0.25):
    return (
        jax.ShapeDtypeStruct(x.shape, x.dtype),
        jax.ShapeDtypeStruct(x.shape[:-1], x.dtype),
    )


in_lanes = xla_ffi_kit.rows(_FILTER, lanes=True, **_OPTIONS)(_shapes)
one_by_one = xla_ffi_kit.rows(_FILTER, **_FLAGS, **_OPTIONS)(_shapes)
_TOLERANCE = {
    "float32": 2e-6,
    "float64": 1e-14,
    "bfloat16": 8e-3,
    "float16": 1e-3,
}


def _operands(rows, n, dtype, seed=0):
    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(-3, 3, s) for s in ((rows, n), (n,), (rows, 2))]
    return [jnp.asarray(x).astype(dtype) for x in arrays]


def _rows(op):
    """How an operation runs its rows, as `explain` has it."""
    return op.explain().partition("string, compiled as ")[2].split("\n")[0]


def test_explain():
    assert ": in lanes of " in _rows(in_lanes)
    assert ": row by row on" in _rows(one_by_one)


def _same_bits(got, want):
    for g, w in zip(got, want, strict=True):
        assert np.asarray(g).tobytes() == np.asarray(w).tobytes()


def _same_bits_beside_any_others(operands, parts):
    """Rows are the same, whichever are computed beside them."""
    whole = in_lanes(*operands)
    x, w, shift = operands
    for part in (slice(*part) for part in parts):
        results = in_lanes(x[part], w, shift[part])
        _same_bits(results, [y[part] for y in whole])
    return whole


@pytest.mark.parametrize("dtype", [*_TOLERANCE, "int32"])
def test_values_are_those_of_one_row_after_the_other(dtype):
    some = (1, 3, 7, 8, 9, 15, 16, 17, 18, 31, 32)
    for n, numbers in ((1, (5,)), (2, (5,)), (37, some), (9001, (1,))):
        operands = _operands(33, n, dtype)
        parts = [(0, rows) for rows in numbers]
        whole = _same_bits_beside_any_others(operands, parts)
        close(whole, one_by_one(*operands), _TOLERANCE.get(dtype, 0))
    level, change = in_lanes(*_operands(0, 5, dtype))
    assert level.shape == (0, 5) and change.shape == (0,)


def test_of_any_number_of_rows_and_threads():
    parts = [(begin, None) for begin in (0, 5, 1600, 4000)]
    _same_bits_beside_any_others(_operands(4001, 48, "float32"), parts)


def test_a_result_in_the_memory_of_its_operand():
    # Each element is written after its use: the first one, and then, from the
    # other end, those beside it.
    code = """
    out[0] = x[0];
    for (int64_t i = x.size() - 1; i > 0; --i) out[i] = 3 * x[i];
    """
    options = _SHAPE | {"aliases": {"x": "out"}, "lanes": True}
    op = xla_ffi_kit.rows(code, **options)(_same)
    assert "in lanes of" in _rows(op)
    x = np.asarray(_operands(11, 1001, "float32")[0])
    want = x * np.where(np.arange(1001) == 0, 1, 3).astype(np.float32)
    in_place = jax.jit(lambda x: op(x * 2), donate_argnums=0)
    np.testing.assert_allclose(in_place(x / 2), want, rtol=1e-6)


_FUNCTIONS = {
    "exp": ("std::exp(v)", np.exp, (-87, 88), 2),
    "exp2": ("std::exp2(v)", np.exp2, (-125, 127), 2),
    "expm1": ("std::expm1(v)", np.expm1, (-5, 5), 3),
    "log": ("std::log(v)", np.log, (1e-3, 1e3), 2),
    "log2": ("std::log2(v)", np.log2, (1e-3, 1e3), 2),
    "log10": ("std::log10(v)", np.log10, (1e-3, 1e3), 2),
    "log1p": ("std::log1p(v)", np.log1p, (-0.9, 9), 3),
    "tanh": ("std::tanh(v)", np.tanh, (-9, 9), 2),
    "sinh": ("std::sinh(v)", np.sinh, (-80, 80), 4),
    "cosh": ("std::cosh(v)", np.cosh, (-80, 80), 4),
    "sin": ("std::sin(v)", np.sin, (-3, 3), 3),
    "cos": ("std::cos(v)", np.cos, (-1.5, 1.5), 3),
    "tan": ("std::tan(v)", np.tan, (-1.5, 1.5), 4),
    "sqrt": ("std::sqrt(v)", np.sqrt, (0, 9), 0.51),
    "pow": ("std::pow(v, 1.5f)", lambda v: v**1.5, (0, 99), 1),
    "floor": ("std::floor(v)", np.floor, (-9, 9), 0),
    "atan2": ("std::atan2(v, A(2))", lambda v: np.arctan2(v, 2), (-9, 9), 1),
    "clip": (
        "std::min(std::max(v, A(-1)), A(2))",
        lambda v: np.clip(v, -1, 2),
        (-9, 9),
        0,
    ),
}


def _of_functions(x):
    return (jax.ShapeDtypeStruct(x.shape[:-1], x.dtype),) * len(_FUNCTIONS)


functions = xla_ffi_kit.rows(
    "\n".join(
        f"{{ const A v = x[{i}]; y{i}[0] = {code}; }}"
        for i, (code, *_) in enumerate(_FUNCTIONS.values())
    ),
    axes=f"(n)->{','.join(['()'] * len(_FUNCTIONS))}",
    results=[f"y{i}" for i in range(len(_FUNCTIONS))],
    dtypes="f32 f64",
    has_reference=False,
    lanes=True,
    flags=["-march=native", "-O2"],
)(_of_functions)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_errors_of_functions(dtype):
    assert "in lanes of" in _rows(functions)
    x = np.linspace(
        [r[2][0] for r in _FUNCTIONS.values()],
        [r[2][1] for r in _FUNCTIONS.values()],
        4001,
    )
    x = x.astype(dtype)
    got = functions(x)
    for i, (name, (_, want, _, ulps)) in enumerate(_FUNCTIONS.items()):
        exact = want(x[:, i].astype(np.longdouble))
        unit = np.spacing(np.abs(exact).astype(dtype)).astype(np.longdouble)
        error = np.abs(np.asarray(got[i]).astype(np.longdouble) - exact) / unit
        assert error.max() <= ulps, (name, error.max())
        _same_bits([y[7:8] for y in got], functions(x[7:8]))


def test_the_line_is_that_of_the_file():
    with pytest.raises(xla_ffi_kit.errors.BuildError) as caught:
        xla_ffi_kit.rows(
            """
            const A least = A(0);
            out[0] = x[0] < least ? least : x[0];  // branches
            """,
            lanes=True,
            **_SHAPE,
        )(lambda x: jnp.maximum(x[..., 0], 0))
    lines = pathlib.Path(__file__).read_text().splitlines()
    at = next(i for i, s in enumerate(lines, 1) if "// branches" in s)
    assert f"lanes_test.py:{at}:" in str(caught.value)


_THROWS = """
#include <string>
void double_it(kit::In<float> x, kit::Out<float> y) {
  if (x.size() > 3) throw std::string("too long");
  for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] + x[i];
}"""


@pytest.mark.parametrize("compiler", ["g++", "clang++", "zig"])
def test_every_compiler(compiler, monkeypatch):
    use_compiler(compiler, monkeypatch)
    options = _OPTIONS | _SHAPE
    op = xla_ffi_kit.rows(_FILTER, lanes=True, **options)(_shapes)
    assert "in lanes of" in _rows(op)
    operands = _operands(19, 37, "float32")
    close(op(*operands), one_by_one(*operands), 2e-6)
    x, w, shift = operands
    _same_bits(op(x[:1], w, shift[:1]), [y[:1] for y in op(*operands)])

    @xla_ffi_kit.inline(_THROWS, kernel_axes=0)
    def double_it(x):
        return x + x

    np.testing.assert_array_equal(double_it(np.float32([1, 2])), [2, 4])
    with pytest.raises(Exception, match="double_it"):
        double_it(np.zeros(4, np.float32)).block_until_ready()


# --- Derivatives --------------------------------------------------------------

_KERNEL = {
    "derivatives": "kernel",
    "has_reference": False,
    "flags": ["-march=native", "-O1"],
}


_SLOPED_FILTER = """
A state = 0.5f, most = x[0];
for (int64_t i = 0; i < x.size(); ++i) {
  state += gain * (x[i] * w[i] - std::tanh(state)) + std::exp(-x[i] * x[i]);
  most = std::max(most, state);
  out[i] = kit::where(state > 1, std::log(state), state * most);
}
"""
_SLOPED = {"axes": "(n),(n)->(n)", "shared": "w", "dtypes": "f32 f64 bf16"}


def _filter_shape(x, w, *, gain=0.5):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


sloped = xla_ffi_kit.rows(_SLOPED_FILTER, lanes=True, **_SLOPED, **_KERNEL)(
    _filter_shape
)
sloped_rows = xla_ffi_kit.rows(_SLOPED_FILTER, **_SLOPED, **_KERNEL)(
    _filter_shape
)
# A sum over a row, whose products compilers fuse with it, or do not.
_SUMS = """
A sum = 0, state = 0;
for (int64_t i = 0; i < x.size(); ++i) {
  sum += x[i] * x[x.size() - 1 - i];
  state = std::exp(-x[i]) * state * 0.5f + x[i] * sum;
  out[i] = kit::where(state > sum, state * x[i], std::tanh(sum)) + sum * state;
}
"""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_slopes_of_one_row_have_the_bits_of_those_among_others(dtype):
    options = {"dtypes": "f32 f64", "derivatives": "kernel", "lanes": True}
    op = xla_ffi_kit.rows(_SUMS, has_reference=False, **options)(_same)
    x, ct = (_operands(19, 64, dtype, seed)[0] for seed in (0, 1))

    def slopes(x, ct):
        y, pull = jax.vjp(op, x)
        return y, *pull(ct), jax.jvp(op, (x,), (ct,))[1]

    whole = slopes(x, ct)
    for part in (slice(3, 4), slice(3, 5)):
        _same_bits(slopes(x[part], ct[part]), [y[part] for y in whole])


_OF_SLOPES = {"float32": 2e-5, "float64": 1e-13, "bfloat16": 2e-2}


def _sloped_operands(rows, dtype, n=21):
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


@pytest.mark.parametrize("dtype", _OF_SLOPES)
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_both_modes_are_those_of_one_row_after_the_other(dtype, rows):
    x, w = _sloped_operands(rows, dtype)
    derivatives = []
    for op in (sloped, sloped_rows):
        slopes = jax.grad(_loss(op), (0, 1))(x, w)
        pushed = jax.jvp(op, (x, w), (jnp.cos(x), jnp.sin(w)))[1]
        derivatives.append((slopes, pushed))
        way = "in lanes of" if op is sloped else "row by row"
        assert way in op.spec.advanced.differentiate.report()
    _close(*derivatives, _OF_SLOPES[dtype])


def test_a_row_alone_has_the_same_bits_where_compilers_fuse():
    """Its tape has numbers of one row; at -O1 no product is fused."""
    options = {**_KERNEL, "flags": ["-march=native", "-O3"]}
    op = xla_ffi_kit.rows(_SLOPED_FILTER, lanes=True, **_SLOPED, **options)(
        _filter_shape
    )
    for dtype in ("float32", "float64"):
        x, w = _sloped_operands(17, dtype)
        pull = jax.jit(jax.grad(_loss(op)))
        whole = np.asarray(pull(x, w))
        for i in (0, 3, 16):
            np.testing.assert_array_equal(pull(x[i : i + 1], w)[0], whole[i])


def test_what_a_row_does_not_choose_takes_nothing_from_an_infinite_slope():
    @xla_ffi_kit.rows(
        """
        out[0] = std::sqrt(kit::where(x[0] >= x[1], x[0], x[1]));
        out[1] = std::sqrt(std::max(x[0], x[1]));
        """,
        dtypes="f32",
        lanes=True,
        **_KERNEL,
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
        **_KERNEL,
    )
    def halves(x):
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    x = jnp.asarray([[0.75, -1.5]], jnp.bfloat16)
    assert halves(x)[0, 0] == -0.75
    slopes = jax.grad(lambda x: halves(x)[0, 0])(x)
    np.testing.assert_array_equal(slopes.astype(jnp.float32), [[1, 1]])


def test_a_derivative_that_does_not_compile_sloped_is_an_error():
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
        **_KERNEL,
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
    assert f"lanes_test.py:{line}:" in said
    assert "choose with kit::where" in said


@pytest.mark.parametrize("lanes", [False, True])
def test_a_tape_grows(lanes):
    """By few entries and by many; then it serves a short row."""

    @xla_ffi_kit.rows(
        "A s = 0; for (auto v : x) s = v * s + 1; out[0] = s;",
        dtypes="f32",
        lanes=lanes,
        **_KERNEL,
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
        ";\n".join(lines) + ";", dtypes="f32", lanes=lanes, **_KERNEL
    )
    def sums(x):
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    for rows in (1, 2):
        x = jnp.ones((rows, most), jnp.float32)
        for k in range(most):
            slopes = jax.grad(lambda x, k=k: sums(x)[:, k].sum())(x)
            want = np.where(np.arange(most) <= k, np.arange(most) + 1, 0)
            np.testing.assert_array_equal(slopes, [want] * rows)
