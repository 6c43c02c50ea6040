"""Rooms and packages: who may import whom."""

import ast
import graphlib
import pathlib
import re

import xla_ffi_kit

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


# Two packages: the kit does not know accelerate, which knows its public names.
# In C++ and Starlark the visibility of targets says what is public.

# Modules whose names are public beside those of `xla_ffi_kit` itself.
PUBLIC = {
    f"xla_ffi_kit.{name}" for name in ("errors", "extend", "ops", "testing")
}
KIT = ("python", "third_party", "tools", "xla_ffi")
OTHERS_NAME = re.compile(r"xla_ffi_accelerate|//accelerate|accelerate/")
ACCELERATE = pathlib.Path("accelerate/python/xla_ffi_accelerate")


def files(*folders):
    return [
        path
        for folder in folders
        for path in pathlib.Path(folder).rglob("*")
        if path.is_file()
    ]


def private_imports(text):
    """What a module imports of the kit that is not public."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for name in (a.name for a in node.names):
                if name.startswith("xla_ffi_kit.") and name not in PUBLIC:
                    yield name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in (a.name for a in node.names):
                whole = f"{node.module}.{name}"
                if node.module == "xla_ffi_kit":
                    if name not in xla_ffi_kit.__all__ and whole not in PUBLIC:
                        yield whole
                elif node.module.startswith("xla_ffi_kit."):
                    if node.module not in PUBLIC or name.startswith("_"):
                        yield whole


def test_the_kit_does_not_name_accelerate():
    found = files(*KIT)
    assert len(found) > 50
    named = [
        str(path)
        for path in found
        if OTHERS_NAME.search(path.read_text(errors="replace"))
    ]
    assert not named


def test_accelerate_imports_public_names_only():
    modules = files(ACCELERATE)
    assert len(modules) > 25
    found = {
        str(path): private
        for path in modules
        if path.suffix == ".py"
        and (private := [*private_imports(path.read_text())])
    }
    assert not found


def test_accelerate_uses_private_names_of_jax_in_one_file():
    private = re.compile(r"jax\._src|mlir\._|\._obj\b|lowering_parameters")
    found = {
        path.name
        for path in files(ACCELERATE)
        if private.search(path.read_text(errors="replace"))
    }
    assert found == {"_jax.py"}
