"""What operations from strings say of a mistake, before and after C++."""

import functools
import inspect
import os
import subprocess
import textwrap

import inline_data
import jax
import numpy as np
import pytest
from common import raises
from inline_data import error_of

import xla_ffi_kit
from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.strings import cpp, places

elementwise = functools.partial(
    xla_ffi_kit.elementwise, dtypes="f32", flags=["-O0"]
)
rows = functools.partial(xla_ffi_kit.rows, dtypes="f32", flags=["-O0"])
inline = functools.partial(xla_ffi_kit.inline, kernel_axes=0, flags=["-O0"])


no_compiler = inline_data.no_compiler


def _argument(expected, got):
    return f"f: argument: expected {expected}, got {got!r}"


_EXPRESSIONS = (
    "f: expressions: expected at least one string of C++, and only strings, "
    "got "
)


@pytest.mark.parametrize(
    ("decorate", "said"),
    [
        (
            rows("", results=None),
            "f: results: expected a sequence, got None",
        ),
        (
            rows("", kernel_axes="1"),
            "f: kernel_axes: expected a number >= 0 for all operands "
            "(axes='(),(n)->(n)' tells them apart), got '1'",
        ),
        (
            rows("", shared="0"),
            "f: shared: expected a name of the operands x, y, got '0'",
        ),
        (
            rows("", axes="(n)->(n)"),
            "f: axes: expected the axes of 2 operands (x, y), got 1: (n)->(n)",
        ),
        (
            elementwise("x", flags="-O0"),
            "f: flags: expected a sequence, got '-O0'",
        ),
        (inline("", flags="-O0"), "f: flags: expected a sequence, got '-O0'"),
        (elementwise(["x", "y"]), _EXPRESSIONS + "[['x', 'y']]"),
        (elementwise(), _EXPRESSIONS + "[]"),
        (rows("", derivative="kernel"), _argument("derivatives", "derivative")),
        (elementwise("x", flag=""), _argument("flags", "flag")),
        (inline("", dtype="f32"), _argument("dtypes", "dtype")),
        (
            rows("", has_side_effect=True),
            _argument(
                "advanced=xla_ffi_kit.Advanced(has_side_effect=...)",
                "has_side_effect",
            ),
        ),
    ],
)
def test_a_string_is_no_sequence(no_compiler, decorate, said):
    with raises((TypeError, ValueError), said):

        @decorate
        def f(x, y):
            return x


def test_a_keyword_that_there_is_not(no_compiler):
    """All that the decorator takes are named, its own first."""
    said = error_of(rows("", zzz=1), TypeError)
    assert said.startswith("f: argument: expected one of dtypes, kernel_axes, ")
    for name in ("derivatives", "has_reference", "lanes", "flags", "jvp"):
        assert f" {name}," in said


_NO_NAME = "expected the name of a variable in C++, where this is "
_NO_FUNCTION = "function: expected the name of the function in C++, got "


@pytest.mark.parametrize(
    ("decorate", "reference", "said"),
    [
        (
            rows(""),
            lambda x, *, default=1: x,
            f"attribute default: {_NO_NAME}a keyword",
        ),
        (
            rows(""),
            lambda A: A,
            f"operand A: {_NO_NAME}the type to compute in",
        ),
        (
            rows(""),
            lambda kit_i: kit_i,
            f"operand kit_i: {_NO_NAME}the kit's, as all that begins with kit_",
        ),
        (
            rows("", results=["y", "y"]),
            lambda x: x,
            f"result y: {_NO_NAME}another parameter",
        ),
        (
            rows("", results=["x"]),
            lambda x: x,
            f"result x: {_NO_NAME}another parameter",
        ),
        (
            rows("", results=["y) {} //"]),
            lambda x: x,
            f"result y) {{}} //: {_NO_NAME}no name",
        ),
        (
            rows("", shared="x"),
            lambda x: x,
            "operands: expected at least one that is not shared, whose rows "
            "are looped over, got none",
        ),
        (
            rows("", attributes={"z": "c64"}),
            lambda x, *, z=1: x,
            "attribute z: expected one of pred, s8, s16, s32, s64, u8, u16, "
            "u32, u64, f32, f64, got complex64",
        ),
        (
            inline(""),
            lambda x: x,
            f"{_NO_FUNCTION}''; pass it as function=",
        ),
        (
            inline("", function="f();"),
            lambda x: x,
            f"{_NO_FUNCTION}'f();'; pass it as function=",
        ),
    ],
)
def test_names_that_cpp_cannot_have(no_compiler, decorate, reference, said):
    name = "f();" if "'f();'" in said else "lambda"
    with raises(BuildError, f"{name}: {said}"):
        decorate(reference)


@pytest.mark.parametrize("code", ["", " \n", "/* x */", "// x\n /* \n*/"])
def test_code_that_is_blank(no_compiler, code):
    for decorate, what in (
        (elementwise("x", code), "expressions[1]"),
        (rows(code), "body"),
    ):
        said = f"f: {what}: expected C++ code, got {code!r}"
        assert error_of(decorate) == said


def test_a_surrogate_is_no_character():
    said = (
        "f: expected characters in the C++ code and its flags, got the "
        "surrogate '\\ud800'"
    )
    assert error_of(elementwise("x /* \ud800 */")) == said
    assert error_of(elementwise("x", flags=["-DA=\ud800"])) == said


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "'c++",
            "the environment variable CXX: expected the words of a command, "
            'got "\'c++" (No closing quotation)',
        ),
        (
            "true",
            "says that it compiled, but made no .o file; set CXX to a C++ "
            "compiler such as g++",
        ),
        ("{}/script", "script cannot be run: [Errno 8] Exec format error"),
    ],
)
def test_a_command_that_does_not_compile(tmp_path, monkeypatch, command, said):
    script = tmp_path / "script"
    script.write_text("no program")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", command.format(tmp_path))
    assert said in error_of(elementwise("x + 17", fallback="reference"))


def test_a_command_of_blanks_is_none(no_compiler, monkeypatch):
    monkeypatch.setenv("CXX", " ")
    said = error_of(elementwise("x", platforms=["cpu"]))
    assert said.startswith("f: there is no C++ compiler; install one")


def test_a_long_name():
    def f(x):
        return 2 * x

    f.__name__ = "é" * 240
    assert elementwise("2 * x")(f)(np.float32(3)) == 6


# --- What the compiler says ---------------------------------------------------


def after(text):
    """The number of this file's line after the one that holds `text`."""
    with open(__file__, encoding="utf-8") as file:
        lines = file.read().splitlines()
    return lines.index(text) + 2


# The comment before each is how the tests find it.
# indented:
INDENTED = """
        A sum = 0;
        for (const T v : x) sum += v;
        out[0] = nowhere(sum);
"""
# filled:
FILLED = r"""
void f(kit::In<float> x, kit::Out<float> y) {
  const float factor = %d;
  y[0] = nowhere(factor * x[0]);
}
"""
# expression:
EXPRESSION = "elsewhere(x)"
# before:
BEFORE = """
inline float Twice(float v) {
  return nowhere(v);
}
"""


@pytest.mark.parametrize(
    ("decorate", "comment", "line"),
    [
        (rows(INDENTED), "indented", 3),
        (rows(textwrap.dedent(INDENTED)), "indented", 3),
        (inline(FILLED % 3), "filled", 3),
        (elementwise("x", EXPRESSION), "expression", 0),
        (elementwise("Twice(x)", before=BEFORE), "before", 2),
    ],
)
def test_a_string_in_a_variable_has_lines_of_its_own(decorate, comment, line):
    line += after(f"# {comment}:")
    assert f"{os.path.basename(__file__)}:{line}:" in error_of(decorate)


def test_a_string_that_is_in_no_file_has_lines_of_its_own():
    code = "\n".join(["//"] * 3 + ["void f(kit::In<" + "nowhere> x) {}"])
    line = inspect.currentframe().f_lineno + 1
    said = error_of(inline(code))
    assert f"<string of C++ at {__file__}:{line}>:4:" in said


def test_a_string_in_the_call_is_found_before_its_double():
    frame = inspect.currentframe()
    place = places.place_of(
        "nowhere(x)",
        frame,
    )
    assert (place.file, place.line) == (__file__, frame.f_lineno - 3)


@pytest.mark.parametrize(
    ("expression", "header"),
    [
        ("std::vector<T>(1, T(x))[0]", "vector"),
        ("std::unordered_map<int, T>{{1, T(x)}}[1]", "unordered_map"),
        ("std::list<T>(1, T(x)).front()", "list"),
        ("(std::ofstream(), x)", "fstream"),
        ("(assert(x > 0), x)", "cassert"),
    ],
)
def test_a_missing_header_is_named(expression, header):
    said = error_of(elementwise(expression))
    assert said.endswith(f'\npass before="#include <{header}>"')
    op = elementwise(expression, before=f"#include <{header}>")(lambda x: x)
    assert float(op(np.float32(3))) == 3


@pytest.mark.parametrize("choice", ["x[0] : 0", "1 : x[0]", "x[0] : x.size()"])
def test_a_choice_of_a_16_bit_float_or_an_integer(choice):
    code = f"out[0] = x[0] > 0 ? {choice};"
    said = error_of(rows(code, dtypes="f16"))
    assert "write 0.0f for 0, or kit::where(c, x, 0)" in said


def test_a_missing_header_of_inline():
    code = """
void f(kit::In<float> x, kit::Out<float> y) {
  std::vector<float> v(1);
}"""
    said = error_of(inline(code))
    assert said.endswith("\nbegin the code with #include <vector>")


# --- Names and paths as C++ has them ------------------------------------------


def test_a_lambda_is_a_reference():
    double = elementwise("2 * x")(lambda x: 2 * x)
    assert double.name == "lambda"
    last = rows("out[0] = x[x.size() - 1];")(lambda x: x[..., -1:])
    half = inline(
        "namespace n { void half(kit::In<float> x, float by, kit::Out<float> y)"
        " { y[0] = x[0] / by; } }",
        function="n::half",
    )(functools.partial(lambda x, *, by: x / by, by=2.0))
    assert half.name == "half"
    x = np.float32([4])
    assert [double(x), last(x), half(x)] == [8, 4, 2]
    text = jax.jit(lambda x: half(double(x))).lower(x).as_text()
    assert text.count("custom_call") == 2


def test_names_that_generated_code_once_had():
    @rows(
        "for (int64_t j = 0; j < i.size(); ++j)"
        " result0[j] = i[j] + begin * threads[j] + end + lambda_ + rows;",
        results=["result0"],
        shared="threads",
    )
    def double(i, threads, *, begin=1.0, end=2.0, lambda_=3.0, rows=4.0):
        return i + begin * threads + end + lambda_ + rows

    assert double(np.float32([1]), np.float32([2])) == 12

    @elementwise("i + result0 * begin")
    def register(i, result0, *, begin=2.0):
        return i + result0 * begin

    assert register(np.float32(1), np.float32(2)) == 5


@pytest.mark.parametrize(
    "text", ["a", 'quo"te', "back\\slash", "new\nline", "é \U0001f600", "\x07"]
)
def test_a_literal_is_what_it_stands_for(tmp_path, text):
    path = tmp_path / "literal.cc"
    path.write_text(
        "#include <cstdio>\n"
        f"int main() {{ fputs({cpp.literal(text)}, stdout); }}",
        encoding="utf-8",
    )
    subprocess.run(["c++", path, "-o", tmp_path / "literal"], check=True)
    said = subprocess.run([tmp_path / "literal"], capture_output=True)
    assert said.stdout.decode() == text


def test_any_path_of_a_source_is_named_in_its_error(tmp_path):
    path = tmp_path / 'model \U0001f600 é, "q" \udcff.py'
    code = (
        "import xla_ffi_kit\n"
        "@xla_ffi_kit.elementwise('nowhere(x)', dtypes='f32', flags=['-O0'])\n"
        "def f(x): return x\n"
    )
    path.write_text(code)
    with pytest.raises(BuildError) as caught:
        exec(compile(code, str(path), "exec"), {})
    said = str(caught.value)
    assert said.startswith("f: does not compile: ")
    assert ": error: 'nowhere' was not declared in this scope\n" in said
    assert "model \U0001f600 é, " in said
    assert ".py:2:" in said
