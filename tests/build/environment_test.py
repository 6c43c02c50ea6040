"""docs/environment.md names every variable of the environment that is read."""

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
# Templates and what Python writes, too: a call in a string is one in C++.
TEXTS = {
    path: path.read_text()
    for root in ("python/xla_ffi_kit", "xla_ffi", "tools/new_op/templates")
    for path in sorted(pathlib.Path(root).rglob("*"))
    if path.suffix in (".c", ".cc", ".h", ".cuh", ".tpl", ".py")
    and not path.stem.endswith("_test")
}
READ = re.compile(
    r"\bgetenvb?\(\s*([^\s,()]+)"
    r"|\benvironb?(?:\[|\.(?:get|pop|setdefault)\()\s*([^\s,()\]]+)"
    r"|([\w.\"']+) in os\.environb?\b"
)
# What the names of strings, and of tuples of them, stand for.
CONSTANTS: dict[str, set[str]] = {}
for text in TEXTS.values():
    for name, value in re.findall(
        r"(?m)^(?:inline )?(?:constexpr char )?(\w+)(?:\[\])? = "
        r'("\w+"|\(\n(?:    "\w+",\n)+\))',
        text,
    ):
        CONSTANTS.setdefault(name, set()).update(re.findall(r"\w+", value))


def names(expression: str, text: str, where: pathlib.Path) -> set[str]:
    """The variables that an expression stands for."""
    if quoted := re.fullmatch(r"""\\?["'](\w+)\\?["']""", expression):
        return {quoted[1]}
    name = expression.rpartition(".")[2]
    if of_loop := re.search(rf"\bfor {name} in ([\w.]+)", text):
        name = of_loop[1].rpartition(".")[2]
    assert name in CONSTANTS, f"{where}: which variable is {expression}?"
    return CONSTANTS[name]


def test_the_page_names_what_is_read():
    read = {
        name
        for where, text in TEXTS.items()
        for groups in READ.findall(text)
        for name in names("".join(groups), text, where)
    }
    # One of each language and way: the files are there.
    assert read >= {"CXX", "XLA_FFI_KIT_CACHE", "XLA_FFI_KIT_THREADS"}
    assert read == ROWS
