"""FfiOp as a Python object, and mistakes in its use that it tells."""

import copy
import dataclasses
import functools
import inspect
import pickle
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
from common import operation, run_python, said

import xla_ffi_kit
from xla_ffi_kit import Advanced, FfiOp
from xla_ffi_kit.op.spec import Options
from xla_ffi_kit.ops import LIBRARIES

CPU = LIBRARIES[0]


def times(x, y, *, factor=2.0, offset):
    """factor x y + offset."""
    return factor * x * y + offset


op = operation(
    times,
    "test.times",
    attributes={"factor": np.float64, "offset": np.float64},
    dtypes=["float32", ("bfloat16", "float32")],
)


def test_it_looks_like_its_reference():
    assert (op.__name__, op.__qualname__) == ("times", "times")
    assert op.__module__ == __name__
    assert op.__doc__ == "factor x y + offset."
    assert inspect.unwrap(op) is times
    assert str(inspect.signature(op)) == (
        "(x, y, *, factor=2.0, offset, implementation=None)"
    )


def test_operands_by_name_and_defaults():
    x = np.float32(3)
    assert op(x, y=x, offset=1.0) == 19
    assert op(y=x, x=x, offset=1.0, factor=1.0) == 10
    jitted = jax.jit(op, static_argnames=("factor", "offset"))
    assert jitted(x, x, offset=0.5) == 18.5


def test_none_is_a_default_where_no_handler_gets_the_attribute():
    def shift(x, *, by=None):
        return x if by is None else x + by

    op = operation(shift, handlers={"cpu": shift}, attributes={"by": None})
    x = np.float32([1, 2])
    for f in (op, jax.jit(op, static_argnames="by"), jax.vmap(op)):
        np.testing.assert_array_equal(f(x), x)
    for by in (None, 3, 0, None):
        np.testing.assert_array_equal(op(x, by=by), shift(x, by=by))
        grad = jax.grad(lambda x, by=by: (op(x, by=by) * op(x)).sum())(x)
        np.testing.assert_array_equal(grad, 2 * x + (by or 0))


def test_every_option_is_explained():
    others = ("name", "reference", "results", "kernel_axes", "dtypes")
    options = (*others, *Options.__annotations__)
    assert len(options) <= 19
    for name in options:
        assert re.search(rf"(?m)^ +{name}: ", FfiOp.__doc__), name
    for field in dataclasses.fields(Advanced):
        assert re.search(rf"(?m)^ +{field.name}: ", Advanced.__doc__), field


# --- Copies, pickles and names of an operation --------------------------------


of_another_module = FfiOp(
    "test.of_another_module", jax.nn.relu, kernel_axes=0, handlers={}
)


def test_pickles_and_copies_are_the_operation_itself():
    assert of_another_module.__module__ != __name__
    for one in (op, xla_ffi_kit.relu, of_another_module):
        assert pickle.loads(pickle.dumps(one)) is one
    local = FfiOp("test.local", jax.nn.relu, kernel_axes=0, handlers={})
    assert said(pickle.dumps, local) == (
        "TypeError: test.local: cannot be pickled: expected it to be a global "
        "of a module, by which another process finds it"
    )
    deep = copy.deepcopy({"activation": local, "again": [local, op]})
    assert deep["activation"] is deep["again"][0] is copy.copy(local) is local
    assert deep["again"][1] is op


def test_a_partial_has_the_names_of_its_function():
    op = operation(
        functools.partial(times, factor=3.0),
        attributes={"factor": np.float64, "offset": np.float64},
    )
    assert (op.__name__, op.__doc__) == ("times", "factor x y + offset.")
    assert op(1.0, 2.0, offset=1.0) == 7


def test_a_founding_operation_is_what_is_public():
    relu = xla_ffi_kit.relu
    assert isinstance(relu, FfiOp)
    assert relu is xla_ffi_kit.ops.relu
    assert [*inspect.signature(relu).parameters] == ["x", "implementation"]
    assert relu.__doc__.startswith("max(x, 0); NaN stays NaN.")
    assert isinstance(xla_ffi_kit.modular_add, FfiOp)


# --- Names and libraries ------------------------------------------------------


def test_a_target_that_the_program_registers_is_called():
    """fallback_test has one that nobody registers."""
    x = jnp.ones(3)
    execute = CPU.handler("xla_ffi_kit.relu").stages["execute"]
    jax.ffi.register_ffi_target(
        "test.registered", jax.ffi.pycapsule(execute), platform="cpu"
    )
    op = FfiOp("test.registered", lambda x: -x, kernel_axes=0)
    assert "@test.registered(" in jax.jit(op).lower(x).as_text()
    assert op(x)[0] == 1


def test_a_name_that_no_operation_has():
    code = (
        "import numpy as np, xla_ffi_kit\n"
        "for _ in range(2): assert xla_ffi_kit.relu(np.float32(-1)) == 0\n"
    )
    stderr = run_python(code, XLA_FFI_KIT_REFERENCE="typo,relu").stderr
    assert (
        stderr.count("XLA_FFI_KIT_REFERENCE: there is no operation typo") == 1
    )
    assert "operation relu" not in stderr
    assert run_python(code, XLA_FFI_KIT_REFERENCE="relu").stderr == ""


def test_paths_stand_for_libraries(tmp_path, monkeypatch):
    shutil.copy(CPU.path, tmp_path / "here.so")
    monkeypatch.chdir(tmp_path)
    library = xla_ffi_kit.HandlerLibrary("here.so")
    monkeypatch.chdir("/")
    assert library.exists
    assert library.handlers.keys() == CPU.handlers.keys()
    for libraries in (CPU.path, [CPU.path], CPU):
        op = FfiOp(
            "xla_ffi_kit.relu", jax.nn.relu, kernel_axes=0, libraries=libraries
        )
        assert "@xla_ffi_kit.relu(" in jax.jit(op).lower(jnp.ones(3)).as_text()
    xla_ffi_kit.register(CPU.path)


def test_a_library_that_is_built_again_is_refused(tmp_path):
    path, built = tmp_path / "library.so", tmp_path / "new.so"
    shutil.copy(CPU.path, path)
    old = xla_ffi_kit.HandlerLibrary(path)
    assert old.handlers
    shutil.copy(CPU.path, built)
    built.replace(path)
    op = FfiOp("xla_ffi_kit.relu", jax.nn.relu, kernel_axes=0, libraries=path)
    assert said(op, np.float32(1)) == (
        f"HandlerLibraryError: handler library {path} has changed since this "
        "process loaded it, and a process cannot load it again; start a new "
        "process"
    )
    assert old.handlers  # the old one goes on


# As `python -m xla_ffi_kit` does it.
RUN = "import runpy; runpy.run_module('xla_ffi_kit', run_name='__main__')"


def test_the_package_says_its_version_and_its_commands():
    for arguments, text in (
        (["--version"], xla_ffi_kit.__version__),
        (["--help"], "doctor"),
        (["include", "--help"], "headers"),
    ):
        done = run_python(RUN, *arguments)
        assert done.returncode == 0, done.stderr
        assert text in done.stdout
        assert "rms_norm" not in done.stdout
