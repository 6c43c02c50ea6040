"""An operation includes nothing of another: what several need is in core.

Nor does it define what another does, as each has a namespace: two templates of
one name would be linked as one of them.
"""

import pathlib
import re
import sys

SOURCES = [pathlib.Path(argument) for argument in sys.argv[1:]]
OF_AN_OPERATION = re.compile(
    r'^#include "(?:xla_ffi/ops|accelerate/kernels)/(\w+)/', re.MULTILINE
)
OF_RMS_NORM = ("xla_ffi_kit", "xla_ffi_kit::rms_norm_internal")
OPENED = re.compile(r"^namespace (xla_ffi[\w:]*) \{", re.MULTILINE)


def operation(source: pathlib.Path) -> str:
    """accelerate/kernels/sort/sort.cc -> sort."""
    folder = "ops" if "ops" in source.parts else "kernels"
    return source.parts[source.parts.index(folder) + 1]


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


def test_each_operation_has_a_namespace_of_its_own() -> None:
    wrong = {
        (str(source), namespace)
        for source in SOURCES
        for namespace in OPENED.findall(source.read_text())
        if namespace.partition("::")[2] != operation(source)
        # Of the kit's first operation, whose names are public.
        and not (operation(source) == "rms_norm" and namespace in OF_RMS_NORM)
    }
    assert not wrong
