"""The text of strings of C++: its lines in errors, its names, and paths."""

import functools
import inspect
import os
import subprocess
import textwrap

import inline_data
import jax
import numpy as np
import pytest
from inline_data import error_of

import xla_ffi_kit
from xla_ffi_kit.compile import cpp
from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.strings.text import source

elementwise = functools.partial(
    xla_ffi_kit.elementwise, dtypes="f32", flags=["-O0"]
)
rows = functools.partial(xla_ffi_kit.rows, dtypes="f32", flags=["-O0"])
inline = functools.partial(xla_ffi_kit.inline, kernel_axes=0, flags=["-O0"])


no_compiler = inline_data.no_compiler


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
        (
            rows("out[0] = Twice(1);", before=BEFORE, lanes=True),
            "before",
            2,
        ),
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
    place = source.place_of(
        "nowhere(x)",
        frame,
    )
    assert (place.file, place.line) == (__file__, frame.f_lineno - 3)


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
