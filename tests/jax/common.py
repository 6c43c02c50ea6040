"""What tests of operations share: devices, small handlers, errors, children."""

import contextlib
import os
import pathlib
import subprocess
import sys

# Read when a test first uses JAX.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from jax.sharding import (  # noqa: E402
    AxisType,
    NamedSharding,
    PartitionSpec,
)

import xla_ffi_kit  # noqa: E402

# The handlers of test_handlers.cc, which show one property each.
LIBRARY = xla_ffi_kit.HandlerLibrary(
    pathlib.Path(__file__).absolute().parent / "test_handlers.so"
)


def rows(*shape, start=0):
    """start, start + 1, ... as float32."""
    stop = start + np.prod(shape)
    return jnp.arange(start, stop, dtype=np.float32).reshape(shape)


def operation(reference, name="test.op", **options):
    """An operation without handlers: it runs its reference."""
    options = {"kernel_axes": 0, "handlers": {}} | options
    return xla_ffi_kit.FfiOp(name, reference, **options)


def handled(target, reference=None, **options):
    """An operation with one of LIBRARY's handlers, of rows."""
    axes = None if "axes" in options else 1
    options = {"kernel_axes": axes, "libraries": LIBRARY} | options
    return xla_ffi_kit.FfiOp(target, reference, **options)


def twice(x):
    """The reference of test.double."""
    return 2 * x


def same(x):
    """A shape function: the result is like x."""
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def count(function, *args, what):
    """How often a primitive is in a function's jaxpr."""
    return str(jax.make_jaxpr(function)(*args)).count(f" {what}[")


def assert_close(got, want, **tolerances):
    """Compares trees of one structure, leaf by leaf."""
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, **tolerances)


def compiled(function, *args, **options):
    """The text of the program that XLA has made."""
    return jax.jit(function, **options).lower(*args).compile().as_text()


COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "permute")


def collectives(function, *args):
    """What a compiled program sends between devices."""
    text = compiled(function, *args)
    return [name for name in COLLECTIVES if name in text]


def mesh_of(kind, shape=(2, 2), names=("d", "e")):
    """A mesh whose axes are all Auto or all Explicit."""
    kinds = (AxisType[kind],) * len(names)
    return jax.make_mesh(shape, names, axis_types=kinds)


def on(mesh, x, *spec):
    """An array on the devices of a mesh."""
    return jax.device_put(x, NamedSharding(mesh, PartitionSpec(*spec)))


def said(call, *args, of="", **kwargs):
    """The error of a call: 'TypeError: op: what: expected this, got that'.

    If it has to be one `of` an operation, without the operation's name.
    """
    with pytest.raises(Exception) as caught:
        call(*args, **kwargs)
    text, name = str(caught.value), f"{of}: " if of else ""
    assert text.startswith(name), text
    return f"{caught.typename}: {text.removeprefix(name)}"


@contextlib.contextmanager
def raises(error, message):
    """`pytest.raises` for an error that says this and no more."""
    with pytest.raises(error) as caught:
        yield
    assert str(caught.value) == message


def failure_of(op, case, check, **options):
    """The row of check_op's report for a check that fails."""
    from xla_ffi_kit.testing import CHECKS, CheckError, check_op

    with pytest.raises(CheckError) as caught:
        check_op(op, [case], skip={*CHECKS} - {check}, **options)
    (row,) = caught.value.report.failures
    assert row.check == check and row.message and row.case == repr(case)
    # Only of other lengths, the case to copy is another one.
    assert repr(case) in row.snippet or check == "other lengths"
    assert row.snippet in str(caught.value).replace("\n    ", "\n")
    return row


def run_snippet(row, op):
    """Runs a failure's snippet as it is, with the operation in its place."""
    scope = {"given": op}
    exec(row.snippet.replace("op = ...", "op = given", 1), scope)
    assert jax.tree.leaves(scope["got"])


def run_python(code, *arguments, cwd=None, **environment):
    """Runs `code` in a fresh interpreter that finds what this one does."""
    paths = os.pathsep.join([*([str(cwd)] if cwd else []), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": paths} | environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
