"""What operations from strings say of a mistake, before and after C++."""

import functools
import inspect
import os
import subprocess
import tempfile
import textwrap

import jax
import numpy as np
import pytest

_folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
os.environ["XLA_FFI_KIT_CACHE"] = _folder.name

import xla_ffi_kit  # noqa: E402
from xla_ffi_kit.strings import cpp, places  # noqa: E402


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


@pytest.mark.parametrize(
    ("decorate", "said"),
    [
        (
            lambda: xla_ffi_kit.rows("", results="out", dtypes="f32"),
            "f: results: expected a sequence, got 'out'",
        ),
        (
            lambda: xla_ffi_kit.rows("", kernel_axes="1", dtypes="f32"),
            "f: kernel_axes: expected a number >= 0 for all operands "
            "(axes='(),(n)->(n)' tells them apart), got '1'",
        ),
        (
            lambda: xla_ffi_kit.rows("", shared="0", dtypes="f32"),
            "f: shared: expected a name of the operands x, y, got '0'",
        ),
        (
            lambda: xla_ffi_kit.rows("", axes="(n)->(n)", dtypes="f32"),
            "f: axes: expected the axes of 2 operands (x, y), got 1: (n)->(n)",
        ),
        (
            lambda: xla_ffi_kit.elementwise("x", flags="-O0", dtypes="f32"),
            "f: flags: expected a sequence, got '-O0'",
        ),
        (
            lambda: xla_ffi_kit.inline("", flags="-O0", kernel_axes=0),
            "f: flags: expected a sequence, got '-O0'",
        ),
        (
            lambda: xla_ffi_kit.elementwise(["x", "y"], dtypes="f32"),
            "f: expressions: expected at least one string of C++, and only "
            "strings, got [['x', 'y']]",
        ),
        (
            lambda: xla_ffi_kit.elementwise(dtypes="f32"),
            "f: expressions: expected at least one string of C++, and only "
            "strings, got []",
        ),
    ],
)
def test_a_string_is_no_sequence(no_compiler, decorate, said):
    with pytest.raises((TypeError, ValueError)) as caught:

        @decorate()
        def f(x, y):
            return x

    assert str(caught.value) == said


def rows_of(reference, **options):
    return xla_ffi_kit.rows("", **{"dtypes": "f32", **options})(reference)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (
            lambda: rows_of(lambda x, *, default=1: x),
            "lambda: attribute default: expected the name of a variable in "
            "C++, where this is a keyword",
        ),
        (
            lambda: rows_of(lambda A: A),
            "lambda: operand A: expected the name of a variable in C++, where "
            "this is the type to compute in",
        ),
        (
            lambda: rows_of(lambda kit_i: kit_i),
            "lambda: operand kit_i: expected the name of a variable in C++, "
            "where this is the kit's, as all that begins with kit_",
        ),
        (
            lambda: rows_of(lambda x: x, results=["y", "y"]),
            "lambda: result y: expected the name of a variable in C++, where "
            "this is another parameter",
        ),
        (
            lambda: rows_of(lambda x: x, results=["x"]),
            "lambda: result x: expected the name of a variable in C++, where "
            "this is another parameter",
        ),
        (
            lambda: rows_of(lambda x: x, results=["y) {} //"]),
            "lambda: result y) {} //: expected the name of a variable in C++, "
            "where this is no name",
        ),
        (
            lambda: rows_of(lambda x: x, shared="x"),
            "lambda: operands: expected at least one that is not shared, whose "
            "rows are looped over, got none",
        ),
        (
            lambda: rows_of(lambda x, *, z=1: x, attributes={"z": "c64"}),
            "lambda: attribute z: expected one of pred, s8, s16, s32, s64, u8, "
            "u16, u32, u64, f32, f64, got complex64",
        ),
        (
            lambda: xla_ffi_kit.inline("", kernel_axes=0)(lambda x: x),
            "lambda: function: expected the name of the function in C++, got "
            "''; pass it as function=",
        ),
        (
            lambda: xla_ffi_kit.inline("", kernel_axes=0, function="f();")(
                lambda x: x
            ),
            "f();: function: expected the name of the function in C++, got "
            "'f();'; pass it as function=",
        ),
    ],
)
def test_names_that_cpp_cannot_have(no_compiler, build, said):
    with pytest.raises(xla_ffi_kit.errors.BuildError) as caught:
        build()
    assert str(caught.value) == said


@pytest.mark.parametrize("code", ["", " \n", "/* x */", "// x\n /* \n*/"])
def test_code_that_is_blank(no_compiler, code):
    for decorate, what in (
        (xla_ffi_kit.elementwise("x", code, dtypes="f32"), "expressions[1]"),
        (xla_ffi_kit.rows(code, dtypes="f32"), "body"),
    ):
        said = f"f: {what}: expected C++ code, got {code!r}"
        assert error_of(decorate) == said


def test_a_surrogate_is_no_character():
    said = (
        "f: expected characters in the C++ code and its flags, got the "
        "surrogate '\\ud800'"
    )
    code = "x /* \ud800 */"
    assert error_of(xla_ffi_kit.elementwise(code, dtypes="f32")) == said
    flags = {"dtypes": "f32", "flags": ["-DA=\ud800"]}
    assert error_of(xla_ffi_kit.elementwise("x", **flags)) == said


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
    options = {"dtypes": "f32", "fallback": "reference"}
    assert said in error_of(xla_ffi_kit.elementwise("x + 17", **options))


def test_a_command_of_blanks_is_none(no_compiler, monkeypatch):
    monkeypatch.setenv("CXX", " ")
    options = {"dtypes": "f32", "platforms": ["cpu"]}
    said = error_of(xla_ffi_kit.elementwise("x", **options))
    assert said.startswith("f: there is no C++ compiler; install one")


def test_a_long_name():
    def f(x):
        return 2 * x

    f.__name__ = "é" * 240
    op = xla_ffi_kit.elementwise("2 * x", dtypes="f32", flags=["-O0"])(f)
    assert op(np.float32(3)) == 6


# --- What the compiler says ---------------------------------------------------


def error_of(decorate):
    with pytest.raises(xla_ffi_kit.errors.BuildError) as caught:

        @decorate
        def f(x):
            return x

    return str(caught.value)


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


def test_a_string_in_a_variable_has_lines_of_its_own():
    file = os.path.basename(__file__)
    said = error_of(xla_ffi_kit.rows(INDENTED, dtypes="f32", flags=["-O0"]))
    assert f"{file}:{after('# indented:') + 3}:" in said
    dedented = textwrap.dedent(INDENTED)
    said = error_of(xla_ffi_kit.rows(dedented, dtypes="f32", flags=["-O0"]))
    assert f"{file}:{after('# indented:') + 3}:" in said
    filled = xla_ffi_kit.inline(FILLED % 3, kernel_axes=0, flags=["-O0"])
    assert f"{file}:{after('# filled:') + 3}:" in error_of(filled)
    said = error_of(
        xla_ffi_kit.elementwise("x", EXPRESSION, dtypes="f32", flags=["-O0"])
    )
    assert f"{file}:{after('# expression:')}:" in said
    said = error_of(
        xla_ffi_kit.elementwise(
            "Twice(x)", before=BEFORE, dtypes="f32", flags=["-O0"]
        )
    )
    assert f"{file}:{after('# before:') + 2}:" in said


def test_a_string_that_is_in_no_file_has_lines_of_its_own():
    code = "\n".join(["//"] * 3 + ["void f(kit::In<" + "nowhere> x) {}"])
    line = inspect.currentframe().f_lineno + 1
    said = error_of(xla_ffi_kit.inline(code, kernel_axes=0, flags=["-O0"]))
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
    options = {"dtypes": "f32", "flags": ["-O0"]}
    said = error_of(xla_ffi_kit.elementwise(expression, **options))
    assert said.endswith(f'\npass before="#include <{header}>"')
    remedy = {**options, "before": f"#include <{header}>"}
    op = xla_ffi_kit.elementwise(expression, **remedy)(lambda x: x)
    assert float(op(np.float32(3))) == 3


@pytest.mark.parametrize("choice", ["x[0] : 0", "1 : x[0]", "x[0] : x.size()"])
def test_a_choice_of_a_16_bit_float_or_an_integer(choice):
    code = f"out[0] = x[0] > 0 ? {choice};"
    said = error_of(xla_ffi_kit.rows(code, dtypes="f16"))
    assert "write 0.0f for 0, or kit::where(c, x, 0)" in said


def test_a_missing_header_of_inline():
    code = """
void f(kit::In<float> x, kit::Out<float> y) {
  std::vector<float> v(1);
}"""
    said = error_of(xla_ffi_kit.inline(code, kernel_axes=0, flags=["-O0"]))
    assert said.endswith("\nbegin the code with #include <vector>")


# --- Names and paths as C++ has them ------------------------------------------


def test_a_lambda_is_a_reference():
    double = xla_ffi_kit.elementwise("2 * x", dtypes="f32", flags=["-O0"])(
        lambda x: 2 * x
    )
    assert double.name == "lambda"
    last = xla_ffi_kit.rows(
        "out[0] = x[x.size() - 1];", dtypes="f32", flags=["-O0"]
    )(lambda x: x[..., -1:])
    half = xla_ffi_kit.inline(
        "namespace n { void half(kit::In<float> x, float by, kit::Out<float> y)"
        " { y[0] = x[0] / by; } }",
        function="n::half",
        kernel_axes=0,
        flags=["-O0"],
    )(functools.partial(lambda x, *, by: x / by, by=2.0))
    assert half.name == "half"
    x = np.float32([4])
    assert [double(x), last(x), half(x)] == [8, 4, 2]
    text = jax.jit(lambda x: half(double(x))).lower(x).as_text()
    assert text.count("custom_call") == 2


def test_names_that_generated_code_once_had():
    @xla_ffi_kit.rows(
        "for (int64_t j = 0; j < i.size(); ++j)"
        " result0[j] = i[j] + begin * threads[j] + end + lambda_ + rows;",
        results=["result0"],
        dtypes="f32",
        shared="threads",
        flags=["-O0"],
    )
    def double(i, threads, *, begin=1.0, end=2.0, lambda_=3.0, rows=4.0):
        return i + begin * threads + end + lambda_ + rows

    assert double(np.float32([1]), np.float32([2])) == 12

    @xla_ffi_kit.elementwise("i + result0 * begin", dtypes="f32", flags=["-O0"])
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
    with pytest.raises(xla_ffi_kit.errors.BuildError) as caught:
        exec(compile(code, str(path), "exec"), {})
    said = str(caught.value)
    assert "'nowhere' was not declared in this scope" in said
    assert "model \U0001f600 é, " in said
    assert ".py:2:" in said
