"""An operation includes nothing of another: what several need is in core.

Nor does it define what another does: two templates of one name would be linked
as one of them.
"""

import pathlib
import re
import sys

SOURCES = [pathlib.Path(argument) for argument in sys.argv[1:]]
OF_AN_OPERATION = re.compile(
    r'^#include "(?:xla_ffi/ops|accelerate/kernels)/(\w+)/', re.MULTILINE
)
OPENED = re.compile(r"^namespace (xla_ffi[\w:]*) \{", re.MULTILINE)
# What is compiled once for each instruction set, and in it what begins a line:
# functions and classes. Inlined ones are no symbols, and yet defined twice.
FOR_TARGETS = re.compile(
    r"^namespace HWY_NAMESPACE \{(.*?)^\}  // namespace HWY_NAMESPACE",
    re.MULTILINE | re.DOTALL,
)
DEFINED = re.compile(
    r"^(?:(?:struct|class) (\w+)|"
    r"(?!HWY_EXPORT)[A-Za-z][^(=;{\n]*?[ &*](\w+)\()",
    re.MULTILINE,
)


def operation(source: pathlib.Path) -> str:
    """accelerate/kernels/sort/sort.cc -> sort."""
    folder = "ops" if "ops" in source.parts else "kernels"
    return source.parts[source.parts.index(folder) + 1]


def opened(source: pathlib.Path) -> set[str]:
    """The package's namespaces that the source opens."""
    return set(OPENED.findall(source.read_text()))


def defined(text: str) -> set[str]:
    """Functions and classes that a text compiles for each instruction set."""
    return {
        function or of_class
        for block in FOR_TARGETS.findall(text)
        for of_class, function in DEFINED.findall(block)
    }


def foreign(source: pathlib.Path, text: str) -> set[str]:
    """The other operations whose headers the source includes."""
    return set(OF_AN_OPERATION.findall(text)) - {operation(source)}


def test_an_include_of_another_operation_is_found() -> None:
    source = pathlib.Path("accelerate/kernels/top_k/top_k.cc")
    text = (
        '#include "accelerate/core/small_sort.h"\n'
        '#include "accelerate/kernels/sort/sort.h"\n'
        '#include "accelerate/kernels/top_k/top_k.h"\n'
    )
    assert foreign(source, text) == {"sort"}


def test_operations_include_nothing_of_each_other() -> None:
    assert {"argmax", "rms_norm", "sort"} <= set(map(operation, SOURCES))
    found = {
        str(source): others
        for source in SOURCES
        if (others := foreign(source, source.read_text()))
    }
    assert not found


def test_each_operation_of_accelerate_has_a_namespace_of_its_own() -> None:
    sources = [source for source in SOURCES if "kernels" in source.parts]
    assert sources
    wrong = {
        str(source): namespaces
        for source in sources
        if (namespaces := opened(source))
        - {f"xla_ffi_accelerate::{operation(source)}"}
    }
    assert not wrong


def test_definitions_for_targets_are_found() -> None:
    text = (
        "namespace HWY_NAMESPACE {\n"
        "template <bool kFused, class V>\n"
        "HWY_INLINE V AddProduct(V a, V b) {\n  return Mul(a, b);\n}\n"
        "struct Block {\n  void Load(int i) {}\n};\n"
        "}  // namespace HWY_NAMESPACE\n"
        "void Outside() {}\n"
    )
    assert defined(text) == {"AddProduct", "Block"}


def test_no_two_operations_of_one_namespace_define_one_name() -> None:
    owners: dict[tuple[str, str], set[str]] = {}
    for source in SOURCES:
        text = source.read_text()
        for namespace in opened(source):
            for name in defined(text):
                owner = owners.setdefault((namespace, name), set())
                owner.add(operation(source))
    assert len(owners) > 50
    assert not {name: ops for name, ops in owners.items() if len(ops) > 1}
