"""Targets of operations from strings: what an exported program calls."""

import os
import re
import shutil
import subprocess
import sys

import inline_builds
import jax
import numpy as np
import pytest
from inline_builds import compiles

import xla_ffi_kit
from xla_ffi_kit.library import registration

pytest.importorskip("flatbuffers", reason="jax.export serializes with it")
folder = inline_builds.folder

TIMES = """
import numpy as np, xla_ffi_kit

def times(number):
    @xla_ffi_kit.inline(
        f"void times(kit::In<float> x, kit::Out<float> y)"
        f" {{ y[0] = {NUMBER} * x[0]; }}", kernel_axes=0FLAGS)
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


def run(folder, code, **environment):
    paths = os.pathsep.join([str(folder), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": paths} | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def result(done):
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def another_compiler(folder):
    other = folder / "other"
    shutil.copy(folder / "compiler", other)
    os.utime(other, (1, 1))
    return {"CXX": str(other), "XLA_FFI_KIT_CACHE": str(folder / "cache2")}


@pytest.mark.parametrize("is_module", [True, False])
def test_an_exported_program_runs_whatever_compiles(folder, is_module):
    code = DOUBLE.format(number=2, flags="")
    other = DOUBLE.format(number=2, flags=', flags=["-O1"]')
    if is_module:
        (folder / "my_ops.py").write_text(code)
        use = "import xla_ffi_kit, my_ops\nOP = my_ops.double\n"
        result(run(folder, use + EXPORT))
        (folder / "my_ops.py").write_text(other)
        # The import is enough: no operation is lowered.
        done = run(folder, "import my_ops\n" + RUN, **another_compiler(folder))
    else:
        result(run(folder, code + "OP = double\n" + EXPORT))
        done = run(folder, other + RUN, **another_compiler(folder))
    assert result(done) == "2.0"
    assert compiles(folder) == 2


def test_a_function_of_a_module_is_found_by_its_name(folder):
    (folder / "my_ops.py").write_text(DOUBLE.format(number=2, flags=""))
    use = "import xla_ffi_kit, my_ops\nOP = my_ops.double\n"
    result(run(folder, use + EXPORT + "print(OP.spec.handlers)\n"))
    assert b"my_ops.double" in (folder / "program").read_bytes()
    # Its author has made it better; the comment is part of the source.
    better = DOUBLE.format(number="/* two */ 2", flags="").replace(
        "return /* two */ 2", "return 2"
    )
    (folder / "my_ops.py").write_text(better)
    assert result(run(folder, "import my_ops\n" + RUN)) == "2.0"


@pytest.mark.parametrize(
    "order",
    [
        "(2, 3)",
        "(3, 4)",
        pytest.param("(3, 2)", marks=pytest.mark.release),
        pytest.param("(3,)", marks=pytest.mark.release),
    ],
)
@pytest.mark.parametrize(
    "by", ["source", pytest.param("macro", marks=pytest.mark.release)]
)
def test_no_order_of_definitions_takes_another_function(folder, order, by):
    if by == "source":
        code = TIMES.replace("NUMBER", "number").replace("FLAGS", "")
    else:
        flags = ', flags=["-DBY=%d" % number]'
        code = TIMES.replace("{NUMBER}", "BY").replace("FLAGS", flags)
    result(run(folder, code + "times(5); OP = times(2)\n" + EXPORT))
    done = run(folder, code + f"all = [times(i) for i in {order}]\n" + RUN)
    if "2" in order:
        assert result(done) == "2.0"
    else:  # never 3
        assert done.returncode != 0 and "3.0" not in done.stdout
        assert "times." in done.stderr


def test_a_cell_that_runs_again_with_other_code(folder):
    def cell(number):
        names = {"__name__": "__main__"}
        exec(DOUBLE.format(number=number, flags=""), names)
        return names["double"]

    two, three, again = cell(2), cell(3), cell(2)
    assert [float(op(np.float32(1))) for op in (two, three, again)] == [2, 3, 2]
    assert two.spec.handlers == again.spec.handlers != three.spec.handlers
    assert re.fullmatch(r"double\.[0-9a-f]{12}", two.spec.handlers["cpu"])


def test_a_module_that_is_loaded_again_with_other_code(folder):
    def load(number, flags=""):
        names = {"__name__": "my_pkg.ops"}
        exec(DOUBLE.format(number=number, flags=flags), names)
        return names["double"]

    ops = [load(2), load(3), load(2), load(3, ', flags=["-O1"]'), load(2)]
    values = [float(op(np.float32(1))) for op in ops]
    assert values == [2, 3, 2, 3, 2]
    targets = [op.spec.handlers["cpu"] for op in ops]
    assert targets[0] == targets[2] == targets[4] == "my_pkg.ops.double"
    assert len(set(targets)) == 3


# --- Loaded stays loaded ------------------------------------------------------


def triple(folder):
    names = {"__name__": f"of_{folder.name}"}
    exec(DOUBLE.format(number=3, flags=""), names)
    return names["double"]


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
    names = {"__name__": "another_module"}
    exec(DOUBLE.format(number=3, flags=""), names)
    assert float(names["double"](np.float32(1))) == 3


def test_a_library_that_goes_between_is_compiled_again(folder, monkeypatch):
    from xla_ffi_kit.strings import operation

    build, times = operation.build, []

    def build_and_lose(*args):
        times.append(1)
        found = build(*args)
        if len(times) == 1:
            os.unlink(found[1])
        return found

    monkeypatch.setattr(operation, "build", build_and_lose)
    assert "custom_call" in lowered(triple(folder), 2)
    assert len(times) == 2


def test_it_is_registered_when_it_is_defined(folder):
    op = triple(folder)
    assert (op.spec.handlers["cpu"], "cpu") in registration._handlers
