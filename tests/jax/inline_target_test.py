"""Targets of operations from strings: what an exported program calls."""

import os
import re
import shutil

import inline_data
import jax
import numpy as np
import pytest
from common import run_python
from inline_data import compiles

import xla_ffi_kit

pytest.importorskip("flatbuffers", reason="jax.export serializes with it")
folder = inline_data.folder

TIMES = """
import numpy as np, xla_ffi_kit

def times(number):
    @xla_ffi_kit.inline(
        f"void times(kit::In<float> x, kit::Out<float> y)"
        f" {{ y[0] = {number} * x[0]; }}", kernel_axes=0)
    def times(x):
        return number * x
    return times
"""
DOUBLE = """
import xla_ffi_kit

@xla_ffi_kit.inline(
    "void double_(kit::In<float> x, kit::Out<float> y)"
    " {{ y[0] = {number} * x[0]; }}",
    function="double_", kernel_axes=0{flags})
def double(x):
    return {number} * x
"""
EXPORT = """
import jax, numpy as np, sys
from jax import export
program = export.export(
    jax.jit(OP), disabled_checks=xla_ffi_kit.export_checks(OP)
)(np.float32(1))
open("program", "wb").write(program.serialize())
"""
RUN = """
import jax, numpy as np, sys
from jax import export

program = export.deserialize(bytearray(open("program", "rb").read()))
print(float(program.call(np.float32(1))))
"""


def result(done):
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("is_module", [True, False])
def test_an_exported_program_runs_whatever_compiles(folder, is_module):
    """By a compiler, flags, and in a module by code, that are others."""
    code = DOUBLE.format(number=2, flags="")
    other = DOUBLE.format(number=2, flags=', flags=["-O1"]')
    shutil.copy(folder / "compiler", folder / "other")
    os.utime(folder / "other", (1, 1))
    others = {
        "CXX": str(folder / "other"),
        "XLA_FFI_KIT_CACHE": str(folder / "cache2"),
    }
    if is_module:
        (folder / "my_ops.py").write_text(code)
        use = "import xla_ffi_kit, my_ops\nOP = my_ops.double\n"
        result(run_python(use + EXPORT, cwd=folder))
        assert b"my_ops.double" in (folder / "program").read_bytes()
        # The comment is part of the source.
        better = other.replace("{ y[0]", "{ /* better */ y[0]")
        (folder / "my_ops.py").write_text(better)
        # The import is enough: no operation is lowered.
        done = run_python("import my_ops\n" + RUN, cwd=folder, **others)
    else:
        result(run_python(code + "OP = double\n" + EXPORT, cwd=folder))
        done = run_python(other + RUN, cwd=folder, **others)
    assert result(done) == "2.0"
    assert compiles(folder) == 2


@pytest.mark.parametrize("order", ["(2, 3)", "(3, 4)"])
def test_no_order_of_definitions_takes_another_function(folder, order):
    save = TIMES + "times(5); OP = times(2)\n" + EXPORT
    result(run_python(save, cwd=folder))
    load = TIMES + f"all = [times(i) for i in {order}]\n" + RUN
    done = run_python(load, cwd=folder)
    if "2" in order:
        assert result(done) == "2.0"
    else:  # never 3
        assert done.returncode != 0 and "3.0" not in done.stdout
        assert "times." in done.stderr


def double_of(module, number, flags=""):
    names = {"__name__": module}
    exec(DOUBLE.format(number=number, flags=flags), names)
    return names["double"]


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("__main__", r"double\.[0-9a-f]{12}"),  # a cell
        ("my_pkg.ops", r"my_pkg\.ops\.double"),
    ],
)
def test_other_code_of_the_same_name(folder, module, target):
    sources = ((2,), (3,), (2,), (3, ', flags=["-g"]'), (2,))
    ops = [double_of(module, *each) for each in sources]
    assert [float(op(np.float32(1))) for op in ops] == [2, 3, 2, 3, 2]
    targets = [op.spec.handlers["cpu"] for op in ops]
    assert targets[0] == targets[2] == targets[4] not in targets[1::2]
    assert re.fullmatch(target, targets[0])
    assert len(set(targets)) == 3


# --- Loaded stays loaded ------------------------------------------------------


def triple(folder):
    return double_of(f"of_{folder.name}", 3)


def lowered(op, size):
    return jax.jit(lambda x: op(x)).lower(np.zeros(size, np.float32)).as_text()


@pytest.mark.parametrize("change", ["remove", "clear", "rebuild"])
def test_a_live_operation_stays_what_it_is(folder, change):
    op = triple(folder)
    if change != "remove":
        assert float(op(np.float32(1))) == 3
    path = op.spec.libraries[0].path
    if change == "remove":
        os.unlink(path)
    elif change == "clear":
        shutil.rmtree(folder / "cache")
    else:
        os.unlink(path)
        shutil.copy(xla_ffi_kit.ops.LIBRARIES[0].path, path)
    assert f"@{op.spec.handlers['cpu']}(" in lowered(op, 5)
    assert float(jax.jit(op)(np.float32(2))) == 6
    # The same source once more, in a cache that has it no more.
    assert "custom_call" in lowered(triple(folder), 6)
    assert float(double_of("another_module", 3)(np.float32(1))) == 3
