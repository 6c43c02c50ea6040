"""Two packages: the kit does not know accelerate, which knows its public names.

In C++ and Starlark the visibility of targets says what is public.
"""

import ast
import pathlib
import re

import xla_ffi_kit

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


def test_a_private_import_is_found():
    text = """
from xla_ffi_kit import FfiOp, _check, extend
from xla_ffi_kit.extend import divided
from xla_ffi_kit.ffi_op import FfiOp
import xla_ffi_kit.library
"""
    assert [*private_imports(text)] == [
        "xla_ffi_kit._check",
        "xla_ffi_kit.ffi_op.FfiOp",
        "xla_ffi_kit.library",
    ]


def test_accelerate_uses_private_names_of_jax_in_one_file():
    private = re.compile(r"jax\._src|mlir\._|\._obj\b|lowering_parameters")
    found = {p.name for p in files(ACCELERATE) if private.search(text_of(p))}
    assert found == {"_jax.py"}


def text_of(path):
    return path.read_text(errors="replace")
