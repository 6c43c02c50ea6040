"""What a string that cannot be differentiated says: the line, the remedy."""

import re

import inline_data  # noqa: F401  a cache of the test's own
import jax
import jax.numpy as jnp
import pytest

import xla_ffi_kit
from xla_ffi_kit.errors import BuildError

_OPTIONS = {
    "dtypes": "f32",
    "flags": ["-O0"],  # values compile faster
    "derivatives": "kernel",
    "has_reference": False,
}


def _rows(body, before="#include <vector>", **options):
    options = _OPTIONS | {"lanes": False} | options
    return xla_ffi_kit.rows(body, before=before, **options)


def _elements(expression):
    return xla_ffi_kit.elementwise(expression, **_OPTIONS)


def _function(body):
    code = "#include <vector>\ntemplate <typename T>\n"
    code += f"void f(kit::In<T> x, kit::Out<T> out) {{\n{body}\n}}"
    return xla_ffi_kit.inline(code, kernel_axes=1, **_OPTIONS)


_VALUE = (
    "a number that knows its derivative does not become another: write "
    "kit::value(x)"
)
_AUTO = (
    "declare variables and results of lambdas as A instead of auto, and write "
    "A(...) around the branches of `?:`"
)
_BYTES = "a number with slopes is not the bytes of a float; copy with std::copy"
_SUM = "declare it as {} instead of double or float"
# The decorator, the line of the mistake, the remedy.
_MISTAKES = {
    "cast to double": (
        _elements("\nstd::abs(double(x))"),
        2,
        _SUM.format("A"),
    ),
    "double": (
        _elements("\n[&] { double y = x; return y; }()"),
        2,
        _SUM.format("A"),
    ),
    "results of a lambda": (
        _rows(
            "const auto square = [](const A& v) {\nif (v > 0) return 2 * v;"
            "\nreturn v * v;\n};\nout[0] = square(x[0]);"
        ),
        3,
        _AUTO,
    ),
    "index": (_rows("const int i = x[0];\nout[0] = x[i];"), 1, _VALUE),
    "function of C": (
        _rows("\n\nout[0] = 1 + sinf(x[0]);"),
        3,
        "take a function of std:: that docs/derivatives.md lists",
    ),
    "container": (
        _rows("std::vector<double> y;\ny.push_back(x[0]);\nout[0] = y[0];"),
        2,
        "make it a container of A instead of double or float",
    ),
    "sum": (
        _function("float total = 0;\ntotal += x[0];\nout[0] = total;"),
        5,
        _SUM.format("kit::Accumulate<T>"),
    ),
    "bytes": (
        _rows(
            "\nstd::memcpy(out.data(), x.data(), x.size() * sizeof(float));",
            "#include <cstring>",
        ),
        2,
        _BYTES,
    ),
    "address": (
        _rows("A y = x[0];\nconst void* at = &y;\nout[0] = at ? x[0] : y;"),
        2,
        _BYTES,
    ),
    "constant": (
        _rows("constexpr A two = 2;\nout[0] = two * x[0];"),
        1,
        "a number that knows its derivative is no constant of the compiler; "
        "write const A",
    ),
    "switch": (
        _function("switch (int(x[0])) { default: out[0] = x[1]; }"),
        4,
        _VALUE,
    ),
}


_QUESTIONS = {
    "A y = x[0];\n*(unsigned*)&y ^= 1u << 31;": "bytes are not a float's",
    "const A a = 1;\nunion { A y; unsigned bits; } z = {a};": "bytes are not",
    "A y = 1;\nif (sizeof(T) == 8) y = 2;": "ask kit::Plain<A>",
    "A y = 1;\nif (std::is_same_v<A, float>) y = 2;": "ask kit::Plain<A>",
}


@pytest.mark.parametrize("code", _QUESTIONS)
def test_a_question_about_the_type_is_refused(code):
    said = 'f: derivatives="kernel": <[^>]*>:2: '
    with pytest.raises(BuildError, match=said) as caught:

        @_rows(code)
        def f(x):
            return x

    assert _QUESTIONS[code] in str(caught.value)


@pytest.mark.parametrize("mistake", _MISTAKES)
def test_the_line_and_the_remedy(mistake):
    decorator, line, said = _MISTAKES[mistake]

    @decorator
    def f(x):
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    x = jnp.ones(2)
    jax.block_until_ready(f(x))  # As a value it is fine.
    with pytest.raises(BuildError) as caught:
        jax.jit(jax.grad(lambda x: f(x).sum())).lower(x)
    text = str(caught.value)
    print(text)
    found = re.match(r"f\.vjp1: does not compile: <[^>]*>:(\d+):", text)
    assert found and int(found[1]) == line
    assert f'derivatives="kernel" takes types of the kit: {said}' in text
