"""docs/environment.md names every variable of the environment that is read."""

import ast
import pathlib
import re

PAGE = pathlib.Path("docs/environment.md").read_text()
PROGRAMS = PAGE.partition("\n## Programs\n")[2].partition("\n## ")[0]
# Of the table's first cells, which may name several.
ROWS = {
    name
    for cell in re.findall(r"(?m)^\| ((?:`\w+`(?:, )?)+) \|", PROGRAMS)
    for name in re.findall(r"\w+", cell)
}
ALL = [
    path
    for root in ("python/xla_ffi_kit", "xla_ffi", "tools/new_op/templates")
    for path in sorted(pathlib.Path(root).rglob("*"))
    if path.is_file() and not path.stem.endswith("_test")
]
PYTHON = [path for path in ALL if path.suffix == ".py"]
# Templates and what Python writes, too: a call in a string is one in C++.
CPP = [
    path
    for path in ALL
    if path.suffix in (".c", ".cc", ".h", ".cuh", ".tpl", ".py")
]


def constants() -> dict[str, set[str]]:
    """What the names of strings stand for, in both languages."""
    found: dict[str, set[str]] = {}
    for path in {*PYTHON, *CPP}:
        text = path.read_text()
        for name, value in re.findall(
            r'(?m)^(?:inline )?(?:constexpr char )?(\w+)(?:\[\])? = "(\w+)"',
            text,
        ):
            found.setdefault(name, set()).add(value)
        for name, values in re.findall(
            r'(?m)^(\w+) = \(\n((?:    "\w+",\n)+)\)', text
        ):
            found.setdefault(name, set()).update(re.findall(r"\w+", values))
    return found


CONSTANTS = constants()


def names(expression: str, where: str) -> set[str]:
    """The variables that an expression stands for."""
    if quoted := re.fullmatch(r"""\\?["'](\w+)\\?["']""", expression):
        return {quoted[1]}
    name = expression.rpartition(".")[2]
    assert name in CONSTANTS, f"{where}: which variable is {expression}?"
    return CONSTANTS[name]


def read_by_python(tree: ast.AST) -> list[ast.expr]:
    """The arguments of os.getenv() and of what os.environ has, by name."""
    found: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            called = ast.unparse(node.func)
            if re.fullmatch(
                r"(os\.)?(environb?\.(get|pop|setdefault)|getenvb?)", called
            ):
                found.append(node.args[0])
        elif isinstance(node, ast.Subscript):
            if re.fullmatch(r"(os\.)?environb?", ast.unparse(node.value)):
                found.append(node.slice)
        elif isinstance(node, ast.Compare):
            if re.fullmatch(
                r"(os\.)?environb?", ast.unparse(node.comparators[0])
            ):
                found.append(node.left)
    return found


def looped_over(tree: ast.AST, argument: ast.expr) -> ast.expr:
    """What a comprehension's variable takes its values from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.comprehension):
            if ast.unparse(node.target) == ast.unparse(argument):
                return node.iter
    return argument


def read() -> set[str]:
    found: set[str] = set()
    for path in PYTHON:
        tree = ast.parse(path.read_text())
        for argument in read_by_python(tree):
            argument = looped_over(tree, argument)
            found |= names(ast.unparse(argument), str(path))
    for path in CPP:
        for argument in re.findall(
            r"(?<!os\.)\bgetenv\(\s*([^()\s]+)\s*\)", path.read_text()
        ):
            found |= names(argument, str(path))
    return found


def test_the_readers_are_found():
    code = (
        "os.environ['A'], os.getenv('B', 1), os.environ.get(x.C), "
        "'D' in os.environ"
    )
    arguments = read_by_python(ast.parse(code))
    assert sorted(map(ast.unparse, arguments)) == ["'A'", "'B'", "'D'", "x.C"]
    # One of each language and way: the files are there.
    assert read() >= {"CXX", "XLA_FFI_KIT_CACHE", "XLA_FFI_KIT_THREADS"}


def test_the_page_names_what_is_read():
    assert read() == ROWS
