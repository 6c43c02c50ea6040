"""The doctor: libraries of ours and of others, broken files, environments."""

import importlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys

import jax
import jaxlib
import pytest

import xla_ffi_kit
from xla_ffi_kit import doctor
from xla_ffi_kit.doctor import _elf_symbols, _environment, _library_report
from xla_ffi_kit.doctor._library_report import Runtime, examine
from xla_ffi_kit.library import registration, releases

# Not resolved: under Bazel this file is a link, and its neighbours count.
HERE = pathlib.Path(os.path.abspath(__file__)).parent
KIT = xla_ffi_kit.ops.LIBRARIES[0].path
MODULAR_ADD = HERE.parents[1] / "xla_ffi/ops/modular_add/modular_add.so"
HERE_AND_NOW = _environment.runtime()
OURS = ".".join(map(str, registration.runtime_api_version()))


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


def by_name(report):
    return {handler.name: handler for handler in report.handlers}


def refused(path):
    with pytest.raises(_library_report.NotAHandlerLibraryError) as caught:
        examine(str(path), HERE_AND_NOW)
    text = str(caught.value)
    assert text.startswith(str(path)) and "\n" not in text
    return text.removeprefix(str(path)).strip()


def test_the_kits_own_library():
    report = examine(KIT, HERE_AND_NOW)
    assert report.kind == "handler table" and report.loads
    found = {(handler.name, handler.platform) for handler in report.handlers}
    assert found == xla_ffi_kit.ops.LIBRARIES[0].handlers.keys()
    assert ("xla_ffi_kit.launch", "cuda") in found
    handler = by_name(report)["xla_ffi_kit.rms_norm"]
    assert handler == _library_report.HandlerReport(
        name="xla_ffi_kit.rms_norm",
        platform="cpu",
        stages=("execute",),
        api_version="0.2",
        traits=(),
        state=None,
        loads_in=">= 0.8.1",
        problem=None,
        signature=str(
            xla_ffi_kit.ops.LIBRARIES[0].signature("xla_ffi_kit.rms_norm")
        ),
    )
    assert report.other_exports == ()
    assert tuple(map(int, report.glibc.split("."))) >= (2, 14)


def test_a_strangers_library_without_a_table(stranger):
    report = examine(str(stranger), HERE_AND_NOW)
    found = by_name(report)
    assert found.keys() == {
        "Plain",
        "Captured",
        "CountHandler",
        "MakeCounterHandler",
    }
    assert found["Plain"].api_version == OURS and not found["Plain"].problem
    assert found["Captured"].traits == ("command buffer compatible",)
    assert found["Plain"].traits == ()
    assert found["MakeCounterHandler"].state == "a type that no table names"
    assert {"aborts", "answers_nothing"} <= set(report.other_exports)


def test_a_strangers_python_module():
    module = importlib.import_module("jaxlib.cpu._sparse")
    report = examine(module.__file__, HERE_AND_NOW)
    assert report.kind == "Python module"
    (handler,) = report.handlers
    assert handler.name in module.registrations()
    assert handler.stages == ("execute",) and not handler.problem
    assert handler.api_version == OURS


def test_a_handler_newer_than_the_runtime(stranger):
    report = examine(str(stranger), Runtime("0.4.38", (0, 1)))
    assert not report.loads
    problem = by_name(report)["Plain"].problem
    assert problem == (
        f"built for FFI {OURS}, jaxlib 0.4.38 speaks 0.1: update jaxlib, or "
        "build with older headers"
    )


def test_which_releases_load():
    assert releases.loads_in((0, 0)) == "none: XLA refuses FFI 0.0"
    assert releases.loads_in((0, 2)) == ">= 0.8.1"
    assert releases.loads_in((0, 2), old_state=True) == (
        ">= 0.8.1 except 0.9.1, 0.9.2"
    )
    assert releases.loads_in((0, 3), old_state=True) == ">= 0.9.1"
    assert releases.loads_in((0, 99)) == "newer than 0.12.0.1"
    # The running jaxlib bears the table out.
    first = releases.FIRST_JAXLIB[registration.runtime_api_version()]
    parts = [tuple(map(int, v.split("."))) for v in (first, jaxlib.__version__)]
    assert parts[0] <= parts[1]


def test_files_that_are_no_handler_library(tmp_path):
    text = tmp_path / "text.so"
    text.write_text("not a library\n")
    assert refused(text) == "is not a shared library (no ELF header)"
    assert refused(tmp_path) == "cannot be read: Is a directory"
    assert refused(tmp_path / "none.so") == (
        "cannot be read: No such file or directory"
    )
    (tmp_path / "empty.so").touch()
    assert "no ELF header" in refused(tmp_path / "empty.so")
    cut = tmp_path / "cut.so"
    cut.write_bytes(pathlib.Path(KIT).read_bytes()[:-4096])
    assert "is truncated" in refused(cut)
    interpreter = os.path.realpath(sys.executable)
    assert refused(interpreter) == "is a shared library without any FFI handler"


def test_a_library_that_dies_when_loaded(tmp_path):
    library = compile_stranger(tmp_path, "-DDIES_WHEN_LOADED")
    assert refused(library) == "ends the process that loads it (SIGABRT)"


def test_a_library_that_lacks_another(tmp_path, stranger):
    library = tmp_path / "lacking.so"
    data = stranger.read_bytes()
    library.write_bytes(data.replace(b"libstdc++.so.6", b"libstdc--.so.6"))
    assert "cannot be loaded: libstdc--.so.6" in refused(library)


def test_no_damaged_file_stops_the_reader(tmp_path, stranger):
    whole = stranger.read_bytes()
    at = int.from_bytes(whole[40:48], "little")  # of the section headers
    choose = random.Random(0)
    path = tmp_path / "damaged.so"
    outcomes = set()
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(choose.randrange(1, 8)):
            place = choose.choice(
                (choose.randrange(64), choose.randrange(at, len(data)))
            )
            data[place] = choose.randrange(256)
        path.write_bytes(data)
        try:
            _elf_symbols.read(str(path))
            outcomes.add("read")
        except _elf_symbols.ElfError as error:
            outcomes.add(str(error).split(" ")[1])
    assert {"read", "malformed", "truncated"} <= outcomes


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "xla_ffi_kit", *map(str, arguments)],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(sys.path)}
        | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_command_line(tmp_path, stranger):
    done = run("doctor", KIT)
    assert done.returncode == 0, done.stderr
    assert "loads every handler" in done.stdout
    done = run("doctor", stranger, "--json")
    report = json.loads(done.stdout)
    assert {h["name"] for h in report["handlers"]} >= {"Plain", "Captured"}
    (tmp_path / "a").write_text("text")
    done = run("doctor", tmp_path / "a")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("doctor: ") and done.stderr.count("\n") == 1
    assert run("operate").returncode == 2


def test_environment():
    # In a process of its own: other tests make operations that do not load.
    done = run("doctor", "--json")
    assert done.returncode == 0, done.stdout
    report = json.loads(done.stdout)
    assert report["devices"]["cpu"] >= 1
    assert report["versions"]["jaxlib"] == jaxlib.__version__
    states = {(o["name"], o["platform"]): o for o in report["operations"]}
    state = states["xla_ffi_kit.relu", "cpu"]
    assert (state["runs"], state["problem"]) == (os.path.basename(KIT), False)


def test_a_package_has_a_section(tmp_path):
    about = tmp_path / "author-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: author\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[xla_ffi_kit.doctor]\ntheir title = author:state\n"
    )
    (tmp_path / "author.py").write_text(
        "def state(): return {'scale': 'on', 'norm': 'off'}\n"
    )
    done = run("doctor", PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]))
    assert done.returncode == 0, done.stdout
    assert "\ntheir title:\n  scale  on\n  norm   off\n" in done.stdout


def test_environment_with_switches_and_an_authors_module(tmp_path):
    (tmp_path / "author.py").write_text(
        "import xla_ffi_kit\n"
        "library = xla_ffi_kit.HandlerLibrary('missing.so')\n"
        "op = xla_ffi_kit.FfiOp('author.op', lambda x: x, kernel_axes=0,"
        " libraries=[library])\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "xla_ffi_kit", "doctor", "--json"]
        + ["--import", "author"],
        cwd=tmp_path,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(sys.path)}
        | {"XLA_FFI_KIT_REFERENCE": "relu"},
        stdout=subprocess.PIPE,
        check=False,
    )
    assert done.returncode == 1
    report = json.loads(done.stdout)
    states = {(o["name"], o["platform"]): o for o in report["operations"]}
    assert states["author.op", "cpu"]["problem"]
    assert "missing.so does not exist" in states["author.op", "cpu"]["why"]
    assert states["xla_ffi_kit.relu", "cpu"]["why"] == "switched to it"
    assert report["switched"] == "relu"


def test_docs_show_what_it_prints(capsys):
    page = (HERE.parents[1] / "docs/doctor.md").read_text()
    shown = re.search(r"doctor modular_add.so\n(.*?)```", page, re.DOTALL)
    # Of the machine: what the library is linked against, and which jaxlib.
    lines = [
        re.sub("; needs glibc.*", "", line)
        for line in shown[1].splitlines()
        if not line.startswith(("linked against", "jaxlib"))
    ]
    assert len(lines) == 6
    assert doctor.main([str(MODULAR_ADD)]) == 0
    printed = capsys.readouterr().out
    for line in lines:
        assert line in printed, "docs/doctor.md: paste what the doctor prints"


def test_main_reports_in_process(capsys):
    assert doctor.main([KIT]) == 0
    assert "xla_ffi_kit.rms_norm_bwd" in capsys.readouterr().out
