"""Objects of Python that strings and files find by name: `keep`."""

import ctypes
import importlib
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import mesh_of, on, run_python, said
from jax import export

import xla_ffi_kit

# A module, as an author's package has it; a fresh process imports it, too.
MODULE = '''
import jax, xla_ffi_kit

@xla_ffi_kit.rows(
    """
    const auto* m = kit::kept_object<const Model>(model);
    for (int64_t i = 0; i < x.size(); ++i)
      out[i] = m->slope * x[i] + m->offset;
    """,
    before="""
    #include "xla_ffi/core/kept_object.h"
    struct Model { float slope, offset; };
    """,
    dtypes="f32",
    has_reference=False,
    attributes={"model": str},
    jvp=lambda primals, tangents, *, model: (
        line(*primals, model=model),
        line(*tangents, model=model) - line(0 * tangents[0], model=model),
    ),
)
def line(x, *, model):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)
'''


class Model(ctypes.Structure):
    _fields_ = [("slope", ctypes.c_float), ("offset", ctypes.c_float)]


MISSING = (
    "line: expected an object that this process keeps as 'nobody', got none: "
    "call xla_ffi_kit.keep('nobody', object) first"
)


@pytest.fixture(scope="module")
def author(tmp_path_factory):
    """The module, and its file."""
    xla_ffi_kit.keep("steep", Model(3, 1))  # no library is loaded
    folder = tmp_path_factory.mktemp("author")
    (folder / "kept_lines.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    module = importlib.import_module("kept_lines")
    sys.path.remove(str(folder))
    return module, folder


X = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_a_call_finds_its_object_by_name(author):
    module, _ = author
    line = module.line
    xla_ffi_kit.keep("flat", Model(0, 7))  # the library is loaded
    np.testing.assert_array_equal(line(X, model="steep"), 3 * X + 1)
    np.testing.assert_array_equal(line(X, model="flat"), np.full_like(X, 7))

    slope = jax.jit(jax.vmap(jax.jacfwd(lambda x: line(x, model="steep"))))
    np.testing.assert_array_equal(slope(X), np.tile(3 * np.eye(3), (4, 1, 1)))
    placed = on(mesh_of("Explicit", (4,), ("d",)), X, "d")
    with jax.set_mesh(placed.sharding.mesh):
        got = jax.jit(lambda x: line(x, model="steep"))(placed)
    assert got.sharding.spec[0] == "d"
    np.testing.assert_array_equal(got, 3 * X + 1)


def test_an_object_that_nobody_keeps(author):
    with pytest.raises(Exception) as caught:
        jax.block_until_ready(author[0].line(X, model="nobody"))
    assert MISSING in str(caught.value)


def test_another_process_keeps_the_same_name(author, tmp_path):
    module, folder = author
    line = jax.jit(lambda x: module.line(x, model="steep"))
    checks = xla_ffi_kit.export_checks(module.line)
    program = export.export(line, disabled_checks=checks)(X)
    (tmp_path / "program").write_bytes(program.serialize())
    read = """
import ctypes, sys, numpy as np, xla_ffi_kit, kept_lines
from jax import export
program = export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
if sys.argv[2] == "keep":
    model = (ctypes.c_float * 2)(5, 0)
    xla_ffi_kit.keep("steep", model)
print(np.asarray(program.call(np.ones((4, 3), np.float32)))[0])
"""
    path = tmp_path / "program"
    found = run_python(read, path, "keep", cwd=folder)
    assert found.stdout == "[5. 5. 5.]\n", found.stderr
    lost = run_python(read, path, "leave", cwd=folder)
    assert MISSING.replace("nobody", "steep") in lost.stderr


def test_files_and_the_forms_of_an_object(tmp_path):
    (tmp_path / "first.cc").write_text("""
#include "xla_ffi/core/kept_object.h"
#include "xla_ffi/strings/kit.h"
void First(kit::In<float> x, std::string_view name, kit::Out<float> y) {
  y[0] = *kit::kept_object<float>(name);
}
KIT_DEFINE_HANDLER(FirstHandler, "x", "name", First);
""")
    library = xla_ffi_kit.build_library(
        [tmp_path / "first.cc"],
        {"kept.first": "FirstHandler"},
        tmp_path / "first.so",
    )
    first = xla_ffi_kit.FfiOp(
        "kept.first",
        results=lambda x, *, name: jax.ShapeDtypeStruct((), x.dtype),
        axes="()->()",
        libraries=library,
    )
    array = (ctypes.c_float * 2)(4, 5)
    address = ctypes.addressof(array)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
    forms = {
        "array": array,
        "pointer": ctypes.pointer(array),
        "void*": ctypes.c_void_p(address),
        "address": address,
        "capsule": new(address, b"its name", None),
        "cfunc": types.SimpleNamespace(address=address),
        "mujoco": types.SimpleNamespace(_address=address),
    }
    try:
        import cffi
    except ImportError:
        pass
    else:
        forms["cffi"] = cffi.FFI().new("float*", 4.0)
    for name, form in forms.items():
        xla_ffi_kit.keep(name, form, owner=array)
        assert first(jnp.float32(0), name=name) == 4


def test_what_is_refused():
    keep = xla_ffi_kit.keep
    floats = ctypes.c_float * 1
    first = floats()
    keep("taken", first)
    keep("taken", ctypes.addressof(first))
    assert said(keep, "taken", floats()) == (
        "ValueError: keep: name: expected one that keeps no other object in "
        "this process, whose handlers may be using it, got 'taken'; give the "
        "new object another name"
    )
    assert said(keep, "null", 0) == (
        "ValueError: keep: object 'null': expected an address, got 0"
    )
    assert said(keep, "text", "a text") == (
        "TypeError: keep: object 'text': expected a capsule, a structure, "
        "array or pointer of ctypes, a pointer of cffi, an address, or an "
        "object with the attribute address or _address, got 'a text'"
    )
    assert said(keep, "", first).startswith("ValueError: keep: name: expected")
    assert said(keep, 3, first).startswith("TypeError: keep: name: expected")
