"""The doctor: libraries of ours and of others, broken files, environments."""

import importlib
import os
import pathlib
import re
import subprocess
import types

import jax
import jaxlib
import pytest
from common import run_python

import xla_ffi_kit
from xla_ffi_kit import doctor
from xla_ffi_kit.doctor import handlers
from xla_ffi_kit.library import registration, releases

# Not resolved: under Bazel this file is a link, and its neighbours count.
HERE = pathlib.Path(os.path.abspath(__file__)).parent
KIT = xla_ffi_kit.ops.LIBRARIES[0]
MODULAR_ADD = HERE.parents[1] / "xla_ffi/ops/modular_add/modular_add.so"
OURS = ".".join(map(str, registration.runtime_api_version()))
LOADS = f"jaxlib {jaxlib.__version__} (FFI {OURS}) loads everything"


def compile_stranger(folder, *options):
    library = folder / "stranger.so"
    headers = ["-isystem", jax.ffi.include_dir()]
    flags = ["-std=c++17", "-shared", "-fPIC", "-w", *headers, *options]
    source = HERE / "stranger_handlers.cc"
    subprocess.run(["c++", *flags, source, "-o", library], check=True)
    return library


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return compile_stranger(tmp_path_factory.mktemp("stranger"))


@pytest.fixture
def report(capsys):
    """Runs the doctor; returns what it prints."""

    def run(*arguments):
        status = doctor.main([*map(str, arguments)])
        printed = capsys.readouterr()
        assert status == bool(printed.err)
        return printed

    return run


def rows_of(path):
    contents = handlers.of_library(xla_ffi_kit.HandlerLibrary(path))
    return contents, {row.handler.name: row.cells[1:] for row in contents.rows}


def test_the_kits_own_library():
    contents, cells = rows_of(KIT.path)
    keys = {(r.handler.name, r.handler.platform) for r in contents.rows}
    assert keys == KIT.handlers.keys()
    assert ("xla_ffi_kit.launch", "cuda") in keys
    norm = ("cpu", "execute", "0.2", "-", "-", ">= 0.8.1")
    assert cells["xla_ffi_kit.rms_norm"] == norm
    assert contents.other_exports == []
    assert tuple(map(int, contents.glibc.split("."))) >= (2, 14)


def test_a_library_with_state_names_its_type():
    _, cells = rows_of(HERE / "test_handlers.so")
    name, stages = "test.count_runs", "instantiate prepare initialize execute"
    assert cells[name][1] == stages and "test.runs" in cells[name][4]


def test_a_strangers_library_without_a_table(stranger, report):
    """Neither C++ nor a header of XLA tells which functions are handlers."""
    contents, cells = rows_of(stranger)
    assert cells.keys() == {
        *("Plain", "Captured", "CountHandler", "MakeCounterHandler"),
        "by_hand",  # `void* by_hand()` returns it
    }
    assert cells["Plain"][:5] == ("?", "?", OURS, "-", "-")
    assert cells["by_hand"][2] == OURS
    assert cells["Captured"][3] == "command buffer compatible"
    assert cells["MakeCounterHandler"][4] == "unregistered"
    assert {"aborts", "answers_nothing"} <= set(contents.other_exports)
    assert LOADS in report(stranger).out
    assert not os.path.exists("written")


def test_a_strangers_python_module():
    module = importlib.import_module("jaxlib.cpu._sparse")
    contents, cells = rows_of(module.__file__)
    assert contents.kind == "Python module"
    assert cells.keys() == module.registrations().keys()
    assert {row[:3] for row in cells.values()} == {("?", "execute", OURS)}


class Function:
    """A function of a module in C or Rust, as Python shows it."""

    def __init__(self, value, doc=None, signature=None):
        self.value, self.__doc__ = value, doc
        self.__text_signature__ = signature

    def __call__(self):
        return self.value


def test_capsules_wherever_a_module_has_them():
    capsule = jax.ffi.pycapsule(
        KIT.handler("xla_ffi_kit.relu").stages["execute"]
    )
    module = types.ModuleType("their")
    module.inner = types.ModuleType("their.inner")
    module.inner.in_a_submodule = capsule
    module.imported = types.ModuleType("another")
    module.imported.no = capsule
    module.HANDLERS = {"in a dict": capsule, "staged": {"execute": capsule}}
    module.pybind = Function(capsule, "pybind() -> capsule\n")
    module.rust = Function(capsule, signature="()")
    module.registrations = Function({"registered": capsule}, signature="()")
    module.needs_more = Function(capsule, "needs_more(x: int) -> capsule")
    module.number = Function(3, signature="()")
    found = dict(handlers._capsules(vars(module)))
    names = ("in_a_submodule", "in a dict", "staged", "pybind", "rust")
    assert found.keys() == {*names, "registered"}
    (stages,) = {tuple(stages.items()) for stages in found.values()}
    assert stages[0][0] == "execute"


def test_a_handler_newer_than_the_runtime(report, monkeypatch):
    monkeypatch.setattr(registration, "runtime_api_version", lambda: (0, 1))
    printed = report(KIT.path)
    assert (
        "doctor: xla_ffi_kit.rms_norm is built for XLA FFI 0.2, but jaxlib "
        f"{jaxlib.__version__} takes 0.1 to 0.1; update jaxlib, or build the "
        "library with older XLA headers"
    ) in printed.err.splitlines()
    assert "loads everything" not in printed.out


def test_which_releases_load():
    assert releases.loads_in((0, 0)) == "none: XLA refuses FFI 0.0"
    assert releases.loads_in((0, 2)) == ">= 0.8.1"
    assert releases.loads_in((0, 2), state=True) == (
        ">= 0.8.1 except 0.9.1, 0.9.2"
    )
    assert releases.loads_in((0, 3), state=True) == ">= 0.9.1"
    assert releases.loads_in((0, 99)) == "newer than 0.12.0.1"
    # The running jaxlib bears the table out.
    first = releases.FIRST_JAXLIB[registration.runtime_api_version()]
    parts = [tuple(map(int, v.split("."))) for v in (first, jaxlib.__version__)]
    assert parts[0] <= parts[1]
    problem = releases.problem((0, 2), "0.9.1", (0, 3), state=True)
    assert "jaxlib 0.9.1 crashes on such handlers" in problem


def test_what_is_no_handler_library(tmp_path, stranger, report):
    """library_test has more: folders, cut files, other machines' files."""
    absent = tmp_path / "none.so"
    said = f"doctor: handler library {absent} does not exist"
    assert report(absent).err.startswith(said)
    os.mkfifo(tmp_path / "pipe.so")
    assert "is not a regular file" in report(tmp_path / "pipe.so").err
    (tmp_path / "none.cc").write_text('extern "C" int one() { return 1; }')
    # The name of a version is a symbol too, of nothing.
    (tmp_path / "versions").write_text("VERSION_1 { global: one; };")
    flags = ["-shared", "-fPIC", tmp_path / "none.cc", "-o", absent]
    flags.append(f"-Wl,--version-script={tmp_path}/versions")
    subprocess.run(["c++", *flags], check=True)
    assert rows_of(absent)[0].other_exports == ["one"]
    assert report(absent).err == f"doctor: {absent} offers no FFI handler\n"
    lacking = tmp_path / "lacking.so"
    data = stranger.read_bytes()
    lacking.write_bytes(data.replace(b"libstdc++.so.6", b"libstdc--.so.6"))
    assert "cannot be loaded: libstdc--.so.6" in report(lacking).err
    # No command to a terminal.
    (tmp_path / "a\x1b[2J").write_text("text")
    said = f"{tmp_path}/a\\x1b[2J is not a shared library (no ELF header)\n"
    assert report(tmp_path / "a\x1b[2J").err.endswith(said)


def test_a_library_that_dies_or_hangs_when_loaded(
    tmp_path, monkeypatch, report
):
    library = compile_stranger(tmp_path, "-DDIES_WHEN_LOADED=std::abort()")
    said = f"doctor: {library} ends the process that loads it (SIGABRT)\n"
    assert report(library).err == said
    compile_stranger(tmp_path, "-DDIES_WHEN_LOADED=loops()")
    monkeypatch.setattr(doctor, "_LIBRARY_SECONDS", 1)
    said = f"doctor: {library} was not read and loaded within 1 s\n"
    assert report(library).err == said


PACKAGE = """
import ctypes, jax, xla_ffi_kit
from jaxlib import xla_client
cosine = xla_ffi_kit.c_function(
    "double(double x)", library="libm.so.6", symbol="cos", name="author.cos")
library = xla_ffi_kit.HandlerLibrary("missing.so")
op = xla_ffi_kit.FfiOp(
    "author.op", lambda x: x, kernel_axes=0, libraries=[library]
)
def state():
    return {"scale": "on", "norm": "off"}
stranger = ctypes.CDLL("STRANGER")
captured = jax.ffi.pycapsule(stranger.Captured)
jax.ffi.register_ffi_target("their.captured", captured, "CUDA")
aborts = jax.ffi.pycapsule(stranger.aborts)
xla_client.register_custom_call_target("their.old", aborts, "cpu", 0)
"""
# As `python -m xla_ffi_kit doctor` does.
COMMAND = "import runpy; runpy.run_module('xla_ffi_kit', None, '__main__')"


def test_environment_with_a_package_and_a_switch(tmp_path, stranger):
    about = tmp_path / "author-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: author\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[xla_ffi_kit.doctor]\ntheir title = author:state\n"
    )
    package = PACKAGE.replace("STRANGER", str(stranger))
    (tmp_path / "author.py").write_text(package)
    done = run_python(
        COMMAND,
        *("doctor", "--import", "author"),
        cwd=tmp_path,
        XLA_FFI_KIT_REFERENCE="relu",
    )
    assert done.returncode == 1, done.stderr
    lines = [re.sub("  +", "  ", line) for line in done.stdout.splitlines()]
    why = "the reference, as use_reference switches it off"
    norm = "the handler xla_ffi_kit.rms_norm of xla_ffi_kit_cpu.so"
    for line in (
        f"jaxlib: {jaxlib.__version__}",
        "  missing.so  cannot be used",
        "  author.op  cpu  an error",
        f"  xla_ffi_kit.relu  cpu  {why}",
        f"  xla_ffi_kit.rms_norm  cpu  {norm}",
        "author registers 3 handlers:",
        f"  their.captured  cuda  execute  {OURS}  command buffer compatible  "
        f"-  {releases.loads_in(registration.runtime_api_version())}",
        "  their.old  cpu  api_version=0  ?  ?  -  ?",
        "their title:",
        "  scale  on",
    ):
        assert line in lines, done.stdout
    assert "cos of libm.so.6, double(double x)" in done.stdout
    (problem,) = done.stderr.splitlines()
    assert problem.startswith(f"doctor: handler library {tmp_path}/missing.so")


def test_docs_show_what_it_prints(report):
    page = (HERE.parents[1] / "docs/doctor.md").read_text()
    shown = re.search(r"doctor modular_add.so\n(.*?)```", page, re.DOTALL)
    # Of the machine: what the library needs, and which jaxlib loads it.
    lines = [
        re.sub("; needs glibc.*", "", line)
        for line in shown[1].splitlines()
        if not line.startswith("jaxlib")
    ]
    assert len(lines) == 6
    printed = report(MODULAR_ADD).out
    for line in lines:
        assert line in printed, "docs/doctor.md: paste what the doctor prints"


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("no_module", "ModuleNotFoundError: No module named 'no_module'"),
        ("leaves_at_once", "SystemExit: 3"),
    ],
)
def test_a_package_that_cannot_be_imported(
    module, said, tmp_path, monkeypatch, report
):
    (tmp_path / "leaves_at_once.py").write_text("import sys\nsys.exit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    printed = report("--import", module)
    assert (printed.out, printed.err) == ("", f"doctor: {said}\n")
