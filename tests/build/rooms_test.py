"""The rooms of the Python package: who may import whom; and its types."""

import ast
import graphlib
import pathlib

PACKAGE = pathlib.Path("python/xla_ffi_kit")
# No room imports one that stands after it; modules beside them come first.
ROOMS = (
    "",
    "library",
    "op",
    "rules",
    "ffi_op",
    "compile",
    "strings.text",
    "strings.cuda",
    "strings.derive",
    "strings",
    "functions",
    "ops",
    "testing",
    "doctor",
)
MODULES = {
    ".".join(path.with_suffix("").relative_to("python").parts): path
    for path in PACKAGE.glob("**/*.py")
}
# What is made of all rooms.
TOP = {f"xla_ffi_kit.{name}" for name in ("__init__", "__main__", "extend")}


def imported(path):
    """The package's modules that a module imports anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        for name in (f"{node.module}.{alias.name}" for alias in node.names):
            if name in MODULES:
                yield name
            elif f"{name}.__init__" in MODULES:
                yield f"{name}.__init__"
            elif node.module in MODULES:
                yield node.module
            elif f"{node.module}.__init__" in MODULES:
                yield f"{node.module}.__init__"


GRAPH = {name: set(imported(path)) for name, path in MODULES.items()}


def room_of(name):
    parts = name.split(".")[1:]
    if parts[0] in ("ffi_op", "report", "export"):
        return "ffi_op"
    return ".".join(parts[:-1])


def test_no_circle():
    assert len(GRAPH) > 40
    graphlib.TopologicalSorter(GRAPH).prepare()


def test_no_arrow_upwards():
    for name, others in GRAPH.items():
        if name in TOP:
            continue
        for other in others:
            at, to = room_of(name), room_of(other)
            assert ROOMS.index(to) <= ROOMS.index(at), f"{name} -> {other}"


def test_what_has_an_underscore_stays_in_its_room():
    for name, others in GRAPH.items():
        for other in others:
            if not room_of(other):  # beside the rooms: for all of them
                continue
            private = other.rpartition(".")[2].startswith("_")
            private &= not other.endswith("__init__")
            assert not private or room_of(name) == room_of(other), other


def test_any_is_rare():
    """It stands only where JAX, or numba, has no types itself."""
    count = sum(
        isinstance(node, ast.Name) and node.id == "Any"
        for path in MODULES.values()
        for node in ast.walk(ast.parse(path.read_text()))
    )
    assert count <= 40
