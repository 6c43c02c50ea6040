"""Strings of `rows` whose rows run in SIMD lanes."""

import importlib.util
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inline_data import close

import xla_ffi_kit

jax.config.update("jax_enable_x64", True)

_FILTER = """
A state = 0;
const A first = x[0];
for (int64_t i = 0; i < x.size(); ++i)
  state = level[i] = a * x[i] * w[i] + (1 - a) * state + shift[0];
for (int64_t i = x.size() - 1; i > 0; --i)
  level[i] = level[i] + kit::where(level[i - 1] > first && x[i] != 2,
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


in_lanes = xla_ffi_kit.rows(_FILTER, **_OPTIONS)(_shapes)
one_by_one = xla_ffi_kit.rows(_FILTER, lanes=False, **_FLAGS, **_OPTIONS)(
    _shapes
)
_TOLERANCE = {
    "float32": 2e-6,
    "float64": 1e-14,
    "bfloat16": 8e-3,
    "float16": 1e-3,
}


def _operands(rows, n, dtype, seed=0):
    rng = np.random.default_rng(seed)
    made = [rng.uniform(-3, 3, s) for s in ((rows, n), (n,), (rows, 2))]
    return [jnp.asarray(values).astype(dtype) for values in made]


def _rows(op):
    """How an operation runs its rows, as `explain` has it."""
    return op.explain().partition("string, compiled as ")[2].split("\n")[0]


def test_explain():
    assert ": in lanes of " in _rows(in_lanes)
    assert ": row by row on" in _rows(one_by_one)
    assert "not in lanes" not in _rows(one_by_one)


def _same_bits_beside_any_others(operands, parts):
    """Rows are the same, whichever are computed beside them."""
    whole = in_lanes(*operands)
    x, w, shift = operands
    for part in (slice(*part) for part in parts):
        found = in_lanes(x[part], w, shift[part])
        for got, want in zip(found, whole, strict=True):
            assert np.asarray(got).tobytes() == np.asarray(want[part]).tobytes()
    return whole


@pytest.mark.parametrize("dtype", [*_TOLERANCE, "int32"])
def test_values_are_those_of_one_row_after_the_other(dtype):
    some = (1, 3, 7, 8, 9, 15, 16, 17, 18, 31, 32)
    for n, numbers in ((1, (5,)), (2, (5,)), (37, some)):
        operands = _operands(33, n, dtype)
        parts = [(0, rows) for rows in numbers]
        whole = _same_bits_beside_any_others(operands, parts)
        close(whole, one_by_one(*operands), _TOLERANCE.get(dtype, 0))


def test_of_any_number_of_rows_and_threads():
    parts = [(begin, None) for begin in (0, 5, 1600, 4000)]
    _same_bits_beside_any_others(_operands(4001, 48, "float32"), parts)


def test_no_rows_and_empty_rows():
    level, change = in_lanes(*_operands(0, 5, "float32"))
    assert level.shape == (0, 5) and change.shape == (0,)


# More elements than one window has.
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("rows", [1, 19])
def test_long_rows_are_seen_through_windows(dtype, rows):
    operands = _operands(rows, 9001, dtype)
    close(in_lanes(*operands), one_by_one(*operands), _TOLERANCE[dtype])


_JUMPS = """
const int64_t n = x.size(), half = n / 2;
for (int64_t i = 0; i < n; ++i) out[i] = -x[n - 1 - i];
for (int64_t i = 0; i < half; ++i) out[i] -= out[half + i] * x[(i * 517) % n];
for (int64_t k = 0; k < n; k += 61) out[k] = out[(k * 7) % n] + out[k / 2];
"""


def test_any_order_of_elements():
    options = {"dtypes": "f32", "has_reference": False}
    jumps = xla_ffi_kit.rows(_JUMPS, **options)(_same)
    plain = xla_ffi_kit.rows(_JUMPS, lanes=False, **_SHAPE)(_same)
    assert "in lanes of" in _rows(jumps)
    for n in (1, 64, 4096, 20011):
        x = _operands(5, n, "float32")[0]
        close(jumps(x), plain(x), 1e-6)


def test_a_result_in_the_memory_of_its_operand():
    # Each element is written after its use: the first one, and then, from the
    # other end, those beside it.
    code = """
    out[0] = x[0];
    for (int64_t i = x.size() - 1; i > 0; --i) out[i] = 3 * x[i];
    """
    op = xla_ffi_kit.rows(code, aliases={"x": "out"}, **_SHAPE)(_same)
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
    "atan2": ("std::atan2(v, 2)", lambda v: np.arctan2(v, 2), (-9, 9), 1),
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


def test_special_values():
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, 1e5, -1e5, 88.8]
    x = np.repeat(np.float32(special)[:, None], len(_FUNCTIONS), 1)
    got = functions(x)
    for i, (name, (_, want, _, _)) in enumerate(_FUNCTIONS.items()):
        with np.errstate(all="ignore"):
            exact = want(x[:, i].astype(np.float64)).astype(np.float32)
        np.testing.assert_allclose(
            got[i], exact, rtol=2e-6, atol=1e-37, err_msg=name
        )


_NOT_IN_LANES = {
    "A best = x[0];\nif (x[1] > best) best = x[1];\nout[0] = best;": (
        "line 2, `if (x[1] > best) best = x[1];`, branches on data"
    ),
    "out[0] = x[0] > 0 ? x[0] : x[1];": "branches on data",
    "out[0] = x[int(x[0])];": ", `out[0] = x[int(x[0])];`, does not",
    "auto v = out[0];\nv = 2;\nout[0] = x[0];": "line 2, `v = 2;`, does not",
    "float sum = 0; sum += x[0]; out[0] = sum;": "does not compile for lanes",
}


@pytest.mark.parametrize("code", _NOT_IN_LANES)
def test_what_does_not_run_in_lanes(code):
    def shape(x):
        return jax.ShapeDtypeStruct(x.shape[:-1], x.dtype)

    op = xla_ffi_kit.rows(code, axes="(n)->()", **_SHAPE)(shape)
    told = _rows(op)
    assert ": row by row on" in told
    assert f"not in lanes, as {_NOT_IN_LANES[code]}" in told or (
        _NOT_IN_LANES[code] in told
    )
    assert op(np.float32([[1, 2], [0, 5]])).shape == (2,)


def test_the_line_is_that_of_the_file():
    op = xla_ffi_kit.rows(
        """
        const A least = A(0);
        out[0] = x[0] < least ? least : x[0];  // branches
        """,
        **_SHAPE,
    )(lambda x: jnp.maximum(x[..., 0], 0))
    lines = pathlib.Path(__file__).read_text().splitlines()
    at = next(i for i, s in enumerate(lines, 1) if "// branches" in s)
    assert f"not in lanes, as rows_lanes_test.py:{at}, `out" in _rows(op)


def test_an_error_is_that_of_one_row_after_the_other():
    with pytest.raises(xla_ffi_kit.errors.BuildError, match="nothing_there"):
        xla_ffi_kit.rows("out[0] = nothing_there;", **_SHAPE)(lambda x: x)


_THROWS = """
#include <string>
void double_it(kit::In<float> x, kit::Out<float> y) {
  if (x.size() > 3) throw std::string("too long");
  for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] + x[i];
}"""


@pytest.mark.parametrize("compiler", ["g++", "clang++", "zig"])
def test_every_compiler(compiler, monkeypatch):
    if compiler == "zig":  # of PyPI, where there is no other
        if importlib.util.find_spec("ziglang") is None:
            pytest.skip("not installed: pip install xla_ffi_kit[inline]")
        monkeypatch.delenv("CXX", raising=False)
        monkeypatch.setenv("PATH", "")
    elif shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    else:
        monkeypatch.setenv("CXX", compiler)
    options = _OPTIONS | _SHAPE
    op = xla_ffi_kit.rows(_FILTER, **options)(_shapes)
    assert "in lanes of" in _rows(op)
    operands = _operands(19, 37, "float32")
    close(op(*operands), one_by_one(*operands), 2e-6)

    @xla_ffi_kit.inline(_THROWS, kernel_axes=0)
    def double_it(x):
        return x + x

    np.testing.assert_array_equal(double_it(np.float32([1, 2])), [2, 4])
    with pytest.raises(Exception, match="double_it"):
        double_it(np.zeros(4, np.float32)).block_until_ready()
