"""Every function of strings: value, slopes and second slopes beside JAX's.

Each form of string is one operation with all functions as its results. It is
called for every function and point at once, with cotangents of one function: so
nothing may come from those that are not used, whatever their slopes.
"""

import functools
import pathlib
import re

import inline_data  # noqa: F401  a cache of the test's own
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit.compile import headers

jax.config.update("jax_enable_x64", True)

_HEADERS = pathlib.Path(headers.include_dir(), "xla_ffi", "strings", "derive")
_NUMBERS = (_HEADERS / "numbers.h").read_text()


def _listed(table):
    """The functions of a table in numbers.h."""
    text = re.search(rf"#define {table}\(F\)(.*?[^\\])\n", _NUMBERS, re.S)[1]
    return re.findall(r"\bF\((\w+)", text)


_ONE = {
    "abs": jnp.abs,
    "acos": jnp.arccos,
    "acosh": jnp.arccosh,
    "asin": jnp.arcsin,
    "asinh": jnp.arcsinh,
    "atan": jnp.arctan,
    "atanh": jnp.arctanh,
    "cbrt": jnp.cbrt,
    "cos": jnp.cos,
    "cosh": jnp.cosh,
    "erf": jax.scipy.special.erf,
    "erfc": jax.scipy.special.erfc,
    "exp": jnp.exp,
    "exp2": jnp.exp2,
    "expm1": jnp.expm1,
    "fabs": jnp.abs,
    "log": jnp.log,
    "log10": jnp.log10,
    "log1p": jnp.log1p,
    "log2": jnp.log2,
    "sin": jnp.sin,
    "sinh": jnp.sinh,
    "sqrt": jnp.sqrt,
    "tan": jnp.tan,
    "tanh": jnp.tanh,
}
_TWO = {
    "atan2": jnp.arctan2,
    "copysign": jnp.copysign,
    "fmod": jnp.fmod,
    "hypot": jnp.hypot,
}
# What has no table in numbers.h, and constants beside a number.
_OTHERS = {
    "ceil(x)": lambda x, y: jnp.ceil(x),
    "floor(x)": lambda x, y: jnp.floor(x),
    "trunc(x)": lambda x, y: jnp.trunc(x),
    "fmax(x, y)": lambda x, y: jnp.fmax(x, y),
    "fmin(x, y)": lambda x, y: jnp.fmin(x, y),
    "fmod(x, 0.75f)": lambda x, y: jnp.fmod(x, 0.75),
    "hypot(x, A(0))": lambda x, y: jnp.hypot(x, jnp.zeros_like(x)),
    "max(x, A(1))": lambda x, y: jnp.maximum(x, 1),
    "max(x, y)": jnp.maximum,
    "min(x, y)": jnp.minimum,
    "pow(2.0f, x)": lambda x, y: jnp.full_like(x, 2) ** x,
    "pow(x, -1)": lambda x, y: 1 / x,
    "pow(x, -1.5f)": lambda x, y: x**-1.5,
    "pow(x, 0)": lambda x, y: x**0,
    "pow(x, 0.5f)": lambda x, y: x**0.5,
    "pow(x, 1)": lambda x, y: x**1,
    "pow(x, 2)": lambda x, y: x**2,
    "pow(x, 3)": lambda x, y: x**3,
    "pow(x, y)": lambda x, y: x**y,
    "atan2(x, A(1))": lambda x, y: jnp.arctan2(x, jnp.ones_like(x)),
}
_OPERATORS = {
    "x * y": jnp.multiply,
    "x / y": jnp.divide,
    "2 / x": lambda x, y: 2 / x,
    "-x + 3 - y": lambda x, y: -x + 3 - y,
    "kit::where(x > 0, std::sqrt(x), 0)": lambda x, y: jnp.where(
        x > 0, jnp.sqrt(jnp.where(x > 0, x, 1)), 0
    ),
}
_NOT_IN_LANES = {
    "clamp(x, A(-1), A(2))": lambda x, y: jnp.clip(x, -1, 2),
    "fma(x, y, x)": lambda x, y: x * y + x,
    "ldexp(x, 3)": lambda x, y: x * 8,
    "max({x, y})": jnp.maximum,
    "max<A>(x, y)": jnp.maximum,
    "min({x, A(1)})": lambda x, y: jnp.minimum(x, 1),
    "min<A>(x, 0)": lambda x, y: jnp.minimum(x, 0),
    "minmax(x, y).second": jnp.maximum,
}


def _functions(in_lanes):
    """C++ -> the same in JAX."""
    functions = {
        f"std::{n}(x)": lambda x, y, f=f: f(x) for n, f in _ONE.items()
    }
    functions |= {f"std::{n}(x, y)": f for n, f in _TWO.items()}
    functions |= {f"std::{code}": f for code, f in _OTHERS.items()}
    if in_lanes:  # An integer would make it a double.
        functions = {
            re.sub(r"(pow\(x, )(-?\d)\)", r"\1A(\2))", code): f
            for code, f in functions.items()
        }
    else:
        functions |= {f"std::{code}": f for code, f in _NOT_IN_LANES.items()}
    return functions | _OPERATORS


_X = [0.0, -0.0, 1, -1, 0.5, -0.75, 2, -2, 3, 1 - 2**-20, 1 + 2**-20, 12]
_X += [-30, 1e-40, -1e-40, 1e-12, 1e30, -1e30, np.inf, -np.inf, np.nan]
_Y = [0.0, -0.0, 1, 0.5, 2, -2, 3, 1e-40, 1e30, np.inf, np.nan]


def _points(dtype):
    x, y = np.meshgrid(_X, _Y, indexing="ij")
    return np.asarray(x.ravel(), dtype), np.asarray(y.ravel(), dtype)


def _operation(form):
    functions = _functions(form == "lanes")
    options = {
        "dtypes": "f32 f64",
        "derivatives": "kernel",
        "has_reference": False,
        "flags": ["-O1", "-march=native"],
        "before": "#include <algorithm>",
    }

    def shapes(x, y):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return (shape,) * len(functions)

    if form == "elementwise":
        return xla_ffi_kit.elementwise(*functions, **options)(shapes)
    results = [f"out{k}" for k in range(len(functions))]
    lines = [
        "for (int64_t i = 0; i < of_x.size(); ++i) {",
        "const A x = of_x[i], y = of_y[i];",
        *(
            f"{name}[i] = {code};"
            for name, code in zip(results, functions, strict=True)
        ),
        "}",
    ]
    lanes = form == "lanes"
    return xla_ffi_kit.rows(
        "\n".join(lines), results=results, lanes=lanes, **options
    )(lambda of_x, of_y: shapes(of_x, of_y))


def _derivatives(f, count):
    """Values, slopes and second slopes towards x, for each function.

    Of `f(x, y)`, a tuple of arrays like x; as arrays with an axis of functions.
    """

    def of_x(x, y):
        chosen = jnp.eye(count, dtype=x.dtype)
        chosen = jnp.moveaxis(chosen, 1, 0)[(..., *[None] * x.ndim)]
        chosen = jnp.broadcast_to(chosen, (count, count, *x.shape))
        x = jnp.broadcast_to(x, (count, *x.shape))
        y = jnp.broadcast_to(y, x.shape)
        return x, y, tuple(chosen)

    def both(x, y):
        x, y, chosen = of_x(x, y)
        return jax.vjp(f, x, y)[1](chosen)

    def alone(x, y):
        x, y, chosen = of_x(x, y)

        def slope(x):
            return jax.vjp(lambda x: f(x, y), x)[1](chosen)[0]

        return slope(x), jax.vjp(slope, x)[1](jnp.ones_like(x))[0]

    def all_of(x, y):
        one = jnp.ones_like(x)
        forward = jax.jvp(lambda x: f(x, y), (x,), (one,))[1]
        x_of_both, y_of_both = both(x, y)
        x_alone, second = alone(x, y)
        return {
            "value": jnp.stack(f(x, y)),
            "forward": jnp.stack(forward),
            "x": x_alone,
            "x of both": x_of_both,
            "y of both": y_of_both,
            "second": second,
        }

    return jax.jit(all_of)


@functools.cache
def _of_jax(dtype, is_flushed=False):
    functions = _functions(False) | _functions(True)

    def f(x, y):
        return [jnp.broadcast_to(g(x, y), x.shape) for g in functions.values()]

    def slopes(x, y):
        one = jnp.ones_like(x)

        def along_x(x):
            return jax.jvp(lambda x: f(x, y), (x,), (one,))[1]

        x_slope, second = jax.jvp(along_x, (x,), (one,))
        y_slope = jax.jvp(lambda y: f(x, y), (y,), (one,))[1]
        return f(x, y), x_slope, y_slope, second

    def all_of(x, y):
        value, x_slope, y_slope, second = map(jnp.stack, slopes(x, y))
        return {
            "value": value,
            "forward": x_slope,
            "x": x_slope,
            "x of both": x_slope,
            "y of both": y_slope,
            "second": second,
        }

    x, y = _points("float32")
    if is_flushed:  # as XLA's threads read 32 bits
        tiny = np.finfo(np.float32).tiny
        zero = np.float32(0)
        x, y = (
            np.where(np.abs(v) < tiny, np.copysign(zero, v), v) for v in (x, y)
        )
    results = jax.jit(all_of)(jnp.asarray(x, dtype), jnp.asarray(y, dtype))
    return {
        what: dict(zip(functions, np.asarray(y, np.float64), strict=True))
        for what, y in results.items()
    }


_TINY = np.float32(1e-40)


def _is_tiny(x, y):
    return np.abs(x) == _TINY


# What differs from JAX: the forms, the functions, of what, where, and why;
# docs/derivatives.md says the same.
_EXCEPTIONS = (
    (
        "",
        r"std::(max|min|clamp|minmax)\b",
        "",
        lambda x, y: np.isnan(x) | np.isnan(y),
        "C++ compares with NaN, where JAX returns it",
    ),
    (
        "",
        r"std::expm1\b",
        "forward|x|second",
        lambda x, y: x == -30,
        "JAX's loses digits: it adds 1",
    ),
    (
        "",
        r"std::(tanh|atanh)\b",
        "second",
        lambda x, y: (np.abs(x) <= np.float32(1e-12)) | np.isinf(x),
        "JAX's loses digits near 0: it takes differences from 1",
    ),
    (
        "",
        r"std::hypot\b",
        "second",
        lambda x, y: (np.abs(x) == np.abs(y)) | (8 * np.abs(y) < np.abs(x)),
        "JAX chooses between x and y; ours loses digits where x is much larger",
    ),
    (
        "",
        r"std::(pow\(x, (0.5f|y)\)|(cbrt|atan2)\b)",
        "",
        _is_tiny,
        "XLA's threads read 32 bits of it as 0, as the C library does not know",
    ),
    (
        "",
        r"std::hypot\(x, A",
        "",
        _is_tiny,
        "XLA's threads may read 32 bits of it as 0, where the slope is 0.5",
    ),
    (
        "",
        r"std::hypot\(x, y",
        "",
        lambda x, y: (np.abs(x) <= _TINY) & (np.abs(y) <= _TINY),
        "the same, of both",
    ),
    (
        "lanes",
        r"x \* y",
        "forward",
        lambda x, y: ~np.isfinite(x),
        "in lanes the factors of a product are not tested",
    ),
    (
        "lanes",
        r"std::pow\(x, A\(-1\)\)",
        "second",
        lambda x, y: (x == 0) | _is_tiny(x, y),
        "the same, where a factor is infinite",
    ),
    (
        "lanes",
        r"std::pow\(x, A\([23]\)\)",
        "second",
        lambda x, y: ~(np.abs(x) < 1e29),
        "the same, where a factor is infinite",
    ),
    (
        "lanes",
        r"std::pow\((2.0f, x|x, y)\)",
        "second",
        lambda x, y: (
            (x == 0) | np.isnan(x) | (np.fmax(np.abs(x), np.abs(y)) > 1e29)
        ),
        "the same, where a factor is infinite",
    ),
)


def _is_close(got, want, tolerance, dtype):
    tiny = np.finfo(dtype).tiny
    with np.errstate(all="ignore"):
        return (
            (got == want)
            | (np.isnan(got) & np.isnan(want))
            | (np.abs(got - want) <= tolerance * np.abs(want) + tiny)
        )


@pytest.mark.parametrize("form", ["elementwise", "rows", "lanes"])
def test_slopes_are_jaxs(form):
    functions = list(_functions(form == "lanes"))
    op = _operation(form)
    call = _derivatives(op, len(functions))
    x, y = _points("float32")
    shape = (-1,) if form == "elementwise" else (-1, 1)
    wrong = []
    for dtype, tolerance in (("float32", 1e-5), ("float64", 1e-12)):
        results = call(*(jnp.asarray(v, dtype).reshape(shape) for v in (x, y)))
        # In double, or as JAX has it in as many bits.
        wants = [_of_jax("float64"), _of_jax(dtype)]
        if dtype == "float32":
            wants.append(_of_jax("float64", is_flushed=True))
        for what, values in results.items():
            for code, got in zip(functions, values, strict=True):
                got = np.asarray(got, np.float64).ravel()
                of_jax = [want[what][code] for want in wants]
                # At poles JAX may have NaN, by 0 times infinity.
                right = np.isnan(of_jax[0]) & ~np.isnan(got)
                for want in of_jax:
                    right |= _is_close(got, want, tolerance, dtype)
                for forms, pattern, of, where, _ in _EXCEPTIONS:
                    is_one = re.match(pattern, code) and re.match(of, what)
                    if is_one and re.match(forms, form):
                        right |= where(x, y)
                wrong += [
                    f"{dtype} {code}, {what}, at {x[i]}, {y[i]}: "
                    f"{got[i]}, of JAX {[want[i] for want in of_jax]}"
                    for i in np.flatnonzero(~right)
                ]
    assert not wrong, "\n".join([f"{len(wrong)}:", *wrong[:40]])
    if form != "elementwise":
        said = "in lanes of" if form == "lanes" else "row by row"
        assert said in op.spec.advanced.differentiate.report()


def test_no_function_is_left_out():
    assert _listed("KIT_FUNCTIONS") == sorted(_ONE)
    assert _listed("KIT_FUNCTIONS_OF_TWO") == sorted(_TWO)
