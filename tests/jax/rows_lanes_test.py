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
    made = [rng.uniform(-3, 3, s) for s in ((rows, n), (n,), (rows, 2))]
    return [jnp.asarray(values).astype(dtype) for values in made]


def _rows(op):
    """How an operation runs its rows, as `explain` has it."""
    return op.explain().partition("string, compiled as ")[2].split("\n")[0]


def test_explain():
    assert ": in lanes of " in _rows(in_lanes)
    assert ": row by row on" in _rows(one_by_one)


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


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("rows", [1, 19])
def test_long_rows(dtype, rows):
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
    jumps = xla_ffi_kit.rows(_JUMPS, lanes=True, **options)(_same)
    plain = xla_ffi_kit.rows(_JUMPS, **_SHAPE)(_same)
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


_ADDRESS = "its address is no other pointer's than A*"
_BRANCH = "choose with kit::where(condition, a, b)"
_BYTES = "a number in lanes is one of each row, not the bytes of a float"
_DOUBLE = "write 0.5f or A(0.5)"
_TYPE = "ask kit::Plain<A>, the type of its values"
_NOT_IN_LANES = {
    "A best = x[0];\nif (x[1] > best) best = x[1];\nout[0] = best;": _BRANCH,
    "out[0] =\n x[0] > 0 ? x[0] : x[1];": _BRANCH,
    "out[0] =\n x[int(x[0])];": "does not become one number, as for an index",
    "float sum = 0;\nsum += x[0]; out[0] = sum;": "as A, not as float",
    "const T v = x[0]; int b;\nstd::memcpy(&b, &v, 4); out[0] = b;": _ADDRESS,
    "A v[2] = {x[0], 1}; int b[2];\nstd::memcpy(b, v, 8); out[0] = b[0];": (
        _BYTES
    ),
    "A v[2];\nstd::memset(v, 0, 8); out[0] = v[0] + x[0];": _BYTES,
    "A v = x[0];\nconst void* at = &v; out[0] = at ? v : x[1];": _ADDRESS,
    "out[0] =\n0.1 * x[0];": _DOUBLE,
    "A v = x[0];\nv += 0.1; out[0] = v;": _DOUBLE,
    "out[0] =\nkit::where(x[0] >= 0.7, x[0], x[1]);": _DOUBLE,
    "out[0] = x[1];\nout[0] = std::pow(x[0], 2.5);": _DOUBLE,
    "out[0] = x[1];\nout[0] = std::pow(x[0], 2);": "and A(2) for 2",
    "out[0] =\nkit::where(x[0] > 0 && x[1] > 0, x[0], x[1]);": "write & and |",
    "out[0] =\nkit::where(x.size() > 1 || x[1] > 0, x[0], x[1]);": (
        "write & and |"
    ),
    "A v = x[0];\nconst A& most = std::max(v, x[1]); v = 9; out[0] = most;": (
        "a copy here"
    ),
    "A v = x[0];\nint i = (int&)v; out[0] = i;": "bytes are not a float's",
    "A v = x[0];\nout[0] = x.size() > 1 ? v : 0.1;": "is a double",
    "const int n = 4;\nA* v = (A*)malloc(4 * n); out[0] = v[0] = x[0];": (
        "another size than a float"
    ),
    "A v = x[0];\nout[0] = std::clamp(v, A(0), A(1));": (
        "write std::max and std::min of two"
    ),
    "A v = 0;\nv += kit::where(x[0] > 0, 1, 0); out[0] = v;": "write A(1)",
    "A v = x[0];\nstatic A kept = 0; kept += v; out[0] = kept;": (
        "outlives a row"
    ),
    "const A one = 1;\nconstexpr A two = 2; out[0] = two * x[0];": (
        "write const A"
    ),
    "A v = 0;\nif constexpr (std::is_same_v<T, float>) v = 1; out[0] = v;": (
        _TYPE
    ),
    "A v = 0;\nif constexpr (sizeof(A) == 4) v = 1; out[0] = v;": _TYPE,
    "const A v = x[0];\nunion { A f; int i; } u; u.f = v; out[0] = u.i;": (
        "whose bytes are not a float's"
    ),
    "A v[1] = {x[0]};\nout[0] = *(int*)v;": "whose bytes are not a float's",
    "A v[1] = {x[0]};\nout[0] = first(v);": "return it by value, as auto",
    "A v = x[0];\nout[0] = unit<A>::v * v;": "take kit::Plain<A> as the arg",
    "A d[400][400];\nfill(d, x[0]);\nout[0] = d[399][399];": (
        "make them a std::vector<A>"
    ),
}
_BEFORE = """
#include <algorithm>
#include <cstring>
template <typename A>
const A& first(const A* v) { return v[0] + 0; }
template <typename T>
struct unit { static constexpr float v = 2; };
template <>
struct unit<float> { static constexpr float v = 1; };
template <typename A>
__attribute__((noinline)) void fill(A (&d)[400][400], A v) {
  for (auto& row : d) for (auto& cell : row) cell = v += 1;
}"""


def _reduced(x):
    return jax.ShapeDtypeStruct(x.shape[:-1], x.dtype)


@pytest.mark.parametrize("code", _NOT_IN_LANES)
def test_what_does_not_run_in_lanes(code):
    options = _SHAPE | {"axes": "(n)->()", "lanes": True, "before": _BEFORE}
    with pytest.raises(xla_ffi_kit.errors.BuildError) as caught:
        xla_ffi_kit.rows(code, **options)(_reduced)
    said = str(caught.value)
    assert "lanes=True: " in said and _NOT_IN_LANES[code] in said
    assert said.endswith("or leave lanes=True out")
    # Of what is wrong in a helper, the helper's line is named, and of too many
    # arrays the function's end.
    if "first" not in code and "fill" not in code:
        assert ">:2:" in said, said


_FUNCTIONS_OF_ONES_OWN = {
    "template <typename N>\nN tanh(N v) { return v; }": "rename it",
    "int sign(...) { return 2; }\nint sign(float v) { return v < 0; }": (
        "choose within the template"
    ),
    "template <typename N> N of(N v) { return v; }\ninline float of(double v) "
    "{ return v; }": "choose within the template",
}


@pytest.mark.parametrize("before", _FUNCTIONS_OF_ONES_OWN)
def test_functions_that_lanes_would_choose_otherwise(before):
    with pytest.raises(xla_ffi_kit.errors.BuildError) as caught:
        xla_ffi_kit.rows("out[0] = 1;", lanes=True, before=before, **_SHAPE)(
            _same
        )
    said = str(caught.value)
    assert ":2: `" in said and _FUNCTIONS_OF_ONES_OWN[before] in said


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
    assert f"rows_lanes_test.py:{at}:" in str(caught.value)


def test_integers_alone_have_no_lanes():
    with pytest.raises(xla_ffi_kit.errors.BuildError, match="got int32_t"):
        xla_ffi_kit.rows(
            "out[0] = x[0];", **_SHAPE | {"dtypes": "s32"}, lanes=True
        )(_reduced)


def test_explain_says_when_lanes_might_pay():
    plain = "out[0] = x[0] + 1;  // ?"
    branch = "if (x[0] > 1) {\n  out[0] = 1;\n}"
    for code, end in (
        (plain, "many rows"),
        (branch, "many rows, if `if (x[0] > 1) {` does not branch on data"),
    ):
        op = xla_ffi_kit.rows(code, **_SHAPE)(_same)
        assert _rows(op).endswith(f"; lanes=True might pay for {end}")
    op = xla_ffi_kit.rows(plain, **_SHAPE | {"dtypes": "s32"})(_same)
    assert "lanes" not in _rows(op)


def test_what_is_as_in_cpp():
    """References, memory of malloc, types of values, swaps."""
    code = """
    const auto& best = out[0];
    out[0] = x[0];
    out[0] = x[1];
    out[1] = best;
    auto& last = out[2];
    last = at(x, 0);
    std::swap(out[1], out[2]);
    char* const memory = static_cast<char*>(std::malloc(9 * sizeof(A)));
    A* const kept = reinterpret_and<A>(memory + 4);
    for (int64_t i = 0; i < 8; ++i) kept[i] = x[0] + i;
    out[3] = kept[7];
    std::free(memory);
    const A* first = &x[0];
    A* const also = &out[3];
    *also += first[1] - (&x[0])[1];
    auto any = x[0] > x[1];
    any |= x[0] < x[1];
    any &= x[0] == x[0];
    out[3] += kit::where(any, A(0), A(1));
    out[4] = std::is_same_v<kit::Plain<T>, double> ? 8 : 4;
    """
    before = """
    #include <cstdlib>
    #include <new>
    template <typename R>
    const auto& at(const R& r, int64_t i) { return r[i]; }
    template <typename A>
    A* reinterpret_and(char* at) { return new (at) A[8]; }
    """
    options = {"lanes": True, "before": before, "axes": "(n)->(m)"}
    op = xla_ffi_kit.rows(code, **options, **_SHAPE | {"dtypes": "f32 f64"})(
        lambda x: jax.ShapeDtypeStruct((*x.shape[:-1], 5), x.dtype)
    )
    x = np.array([[1, 2], [3, 4], [5, 6]])
    for dtype in ("float32", "float64"):
        want = [[b, a, b, a + 7, np.dtype(dtype).itemsize] for a, b in x]
        np.testing.assert_array_equal(op(x.astype(dtype)), want)


def test_an_operand_in_its_result_s_place_is_what_was_written():
    code = "out[0] = 5;\nout[1] = x[0] + out[1];"
    ops = [
        xla_ffi_kit.rows(code, aliases={"x": "out"}, lanes=lanes, **_SHAPE)(
            _same
        )
        for lanes in (False, True)
    ]
    x = np.float32([[1, 2], [3, 4]])
    for op in ops:
        np.testing.assert_array_equal(jax.jit(op)(x), [[5, 7], [5, 9]])


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
    op = xla_ffi_kit.rows(_FILTER, lanes=True, **options)(_shapes)
    assert "in lanes of" in _rows(op)
    operands = _operands(19, 37, "float32")
    close(op(*operands), one_by_one(*operands), 2e-6)

    @xla_ffi_kit.inline(_THROWS, kernel_axes=0)
    def double_it(x):
        return x + x

    np.testing.assert_array_equal(double_it(np.float32([1, 2])), [2, 4])
    with pytest.raises(Exception, match="double_it"):
        double_it(np.zeros(4, np.float32)).block_until_ready()
