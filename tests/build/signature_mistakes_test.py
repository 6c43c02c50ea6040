"""What the author of a signature may do wrongly does not compile, and the
compiler says why.

All mistakes stand in one file, so that the headers are compiled once.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

# The folder of headers, all of which are named.
HEADERS = next(
    pathlib.Path(file).absolute().parents[2]
    for file in sys.argv[1:]
    if file.endswith("xla_ffi/core/call.h")
)
COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")

HEAD = """
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/dtypes.h"
namespace xla_ffi_kit {
using Floats = TypeList<float, double>;
template <const auto& kName, const auto&... kKeys>
constexpr const XlaFfiKit_Signature& kOf = Call<kName, kKeys...>::kSignature;
constexpr char kName[] = "my.op";
constexpr Operand x{"x", Floats(), "(..., n)"};
constexpr Operand other{"other", Floats(), "(..., n)"};
constexpr Result y{"y", x};
constexpr Axis axis{"axis", x};
constexpr Attribute<double> eps{"eps"};
"""

# As a handler may use it.
GOOD = """
constexpr auto weight = Operand{"weight", SameDtype(x), "(n, 2)"}.Shared()
    .Optional().Where("n", 1, 16);
constexpr Result sum{"sum", AccumulationDtype(x), x.Without(axis)};
using GoodCall = Call<kName, x, weight, y, sum, axis, eps>;
const float* Use(const GoodCall& call) {
  double value = call.get<eps>();
  return value > 0 ? call.get<x>().as<float>() : nullptr;
}
static_assert(kOf<kName, x, weight, y, sum, axis, eps>.num_operands == 2);
"""


def use(body, keys="x, y"):
    """A handler's function."""
    return f"auto Use(const Call<kName, {keys}>& call) {{ {body} }}"


def sign(keys, key=""):
    """A signature of keys, the last of which is `key`."""
    return f"{key} const auto& s = kOf<kName, {keys}>;"


def operand(shape, more="", keys="a"):
    """A signature of an operand `a`."""
    key = f'constexpr auto a = Operand{{"a", Floats(), "{shape}"}}{more};'
    return sign(keys, key)


MANY = """
template <int i> struct Many {
  static constexpr const char kText[] = {char(64 + i), 0};
  static constexpr Operand key{kText, Floats()};
};
template <int... i>
constexpr size_t Count(std::integer_sequence<int, i...>) {
  return kOf<kName, Many<i>::key...>.num_operands;
}
constexpr size_t kCount = Count(std::make_integer_sequence<int, 33>());
"""

# A name -> what its author wrote, and what the compiler says.
NO_KEY = "the handler has no such argument"
BATCH_ONCE = r"\"...\" stands once, before the sizes"
LATER = "an argument follows from one that comes before it"
MISTAKES = {
    "a key that the handler lacks": (use("call.get<eps>();"), NO_KEY),
    "a key of another handler, in a dispatch": (
        use("return call.Dispatch<other>([](auto) { return 0; });"),
        NO_KEY,
    ),
    "an error about a key that it lacks": (
        use('return call.Invalid<eps>("", "");'),
        NO_KEY,
    ),
    "a type that is not in the list": (
        use("return call.get<x>().as<int>();"),
        "the signature does not name this type",
    ),
    "writing to an operand": (
        use("*call.get<x>().as<float>() = 1;"),
        "assignment of read-only location",
    ),
    "an attribute as another type": (
        use("int* wrong = call.get<eps>();", "x, y, eps"),
        "cannot convert 'double' to 'int*'",
    ),
    "33 arguments": (MANY, "a signature has up to 32 arguments"),
    "no operand": (
        sign("out", 'constexpr Result out{"out", Floats()};'),
        "a handler with a signature takes an operand",
    ),
    "like a later argument": (
        sign("a, x, y", 'constexpr Operand a{"a", y};'),
        LATER,
    ),
    "like an argument of another handler": (
        sign("x, out", 'constexpr Result out{"out", other};'),
        LATER,
    ),
    "an axis that is no attribute of it": (
        sign(
            "x, out",
            'constexpr Result out{"out", Floats(), x.Without(axis)};',
        ),
        "a shape names an axis that the handler takes",
    ),
    "two attributes of one name": (
        sign("x, y, eps, more", 'constexpr Attribute<int64_t> more{"eps"};'),
        "two attributes have one name",
    ),
    "two arguments of one name": (
        sign("x, out", 'constexpr Result out{"x", x};'),
        "two arguments have one name",
    ),
    "a batch twice": (operand("(..., ..., n)"), BATCH_ONCE),
    "a batch after sizes": (operand("(n, ...)"), BATCH_ONCE),
    "no parentheses": (
        operand("..., n"),
        r"a shape is written \"(..., n)\"",
    ),
    "a size that is no name": (
        operand("(n+1)"),
        "a size is a name or a number",
    ),
    "no size between commas": (
        operand("(n,,m)"),
        "a shape has up to 8 sizes, separated by commas",
    ),
    "bounds of no size": (
        operand("(n)", '.Where("m", 1)'),
        "Where() names a size of the shape",
    ),
    "bounds without sizes": (
        sign("a", 'constexpr auto a = Operand{"a", Floats()}.Where("m", 1);'),
        "Where() and Shared() need a shape of sizes",
    ),
    "shared, and with a batch": (
        operand("(..., n)", ".Shared()", "x, a"),
        r"what is shared has no \"...\"",
    ),
    "shared by no rows": (
        operand("(n)", ".Shared()"),
        r"what rows share comes after an argument of \"...\"",
    ),
    "a size that is a float": (
        operand("(eps)", keys="a, eps"),
        "an attribute that is a size is an int64_t",
    ),
    "bounds of a string": (
        'constexpr auto a = Attribute<std::string_view>{"a"}.AtLeast(1);',
        "what has bounds is a number",
    ),
    "elements of a number": (
        'constexpr auto a = Attribute<int64_t>{"a"}.Elements(2);',
        "what has elements is a span",
    ),
    "an integer or an f32": (
        'constexpr auto a = Attribute<int64_t>{"a"}.OrF32();',
        "a double may also be an f32",
    ),
}


def compile_(source):
    """What the compiler says of a file; empty if it is right."""
    command = [COMPILER, "-std=c++17", "-fsyntax-only", "-I", HEADERS]
    command += ["-fdiagnostics-color=never", "-x", "c++", "-"]
    # Without the language of the user.
    environment = dict(os.environ, LC_ALL="C")
    run = subprocess.run(
        command, input=source, capture_output=True, text=True, env=environment
    )
    assert (run.returncode == 0) == ("error:" not in run.stderr), run.stderr
    return run.stderr


def errors_of(said):
    """Each error with its notes, and with how the compiler came there."""
    leads = re.compile(
        r"In file included|\s+from |\S+: (In|At) |"
        r"\S+:\d+:\d+:\s+(required|in 'constexpr')"
    )
    errors, has_error = [""], False
    for line in said.splitlines(keepends=True):
        is_error = " error: " in line
        if has_error and (is_error or leads.match(line)):
            errors.append("")
            has_error = False
        errors[-1] += line
        has_error |= is_error
    return errors


@pytest.fixture(scope="module")
def errors():
    lines = [HEAD]
    for number, (code, _) in enumerate(MISTAKES.values()):
        lines += [
            f"}}  namespace xla_ffi_kit::m{number} {{",
            f'#line 1 "m{number}.cc"',
            'constexpr char kName[] = "my.op";',
            code,
        ]
    return errors_of(compile_("\n".join([*lines, "}"])))


def test_a_signature_without_a_mistake_compiles():
    assert compile_(HEAD + GOOD + "}") == ""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_compiler_says(errors, mistake):
    number = list(MISTAKES).index(mistake)
    its_own = re.compile(rf"\bm{number}(\.cc:|::)")
    about_it = [error for error in errors if its_own.search(error)]
    _, says = MISTAKES[mistake]
    assert any(says in error for error in about_it), "".join(about_it)
