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
from common import run_python

import xla_ffi_kit
from xla_ffi_kit import doctor
from xla_ffi_kit.doctor import _environment, _library_report, _text
from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.library import elf, registration, releases

# Not resolved: under Bazel this file is a link, and its neighbours count.
HERE = pathlib.Path(os.path.abspath(__file__)).parent
KIT = xla_ffi_kit.ops.LIBRARIES[0].path
MODULAR_ADD = HERE.parents[1] / "xla_ffi/ops/modular_add/modular_add.so"
OURS = ".".join(map(str, registration.runtime_api_version()))


def examine(path):
    return _library_report.examine(str(path), _environment.runtime())


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
    return {handler["name"]: handler for handler in report["handlers"]}


def refused(path):
    with pytest.raises(HandlerLibraryError) as caught:
        examine(path)
    text = str(caught.value)
    assert text.startswith(f"{path} ") and "\n" not in text
    return text.removeprefix(str(path)).strip()


def test_the_kits_own_library():
    report = examine(KIT)
    assert report["kind"] == "handler table" and report["loads"]
    found = {(h["name"], h["platform"]) for h in report["handlers"]}
    assert found == xla_ffi_kit.ops.LIBRARIES[0].handlers.keys()
    assert ("xla_ffi_kit.launch", "cuda") in found
    assert by_name(report)["xla_ffi_kit.rms_norm"] == {
        "name": "xla_ffi_kit.rms_norm",
        "platform": "cpu",
        "stages": ["execute"],
        "api_version": "0.2",
        "traits": [],
        "state": None,
        "loads_in": ">= 0.8.1",
        "problem": None,
        "signature": str(
            xla_ffi_kit.ops.LIBRARIES[0].signature("xla_ffi_kit.rms_norm")
        ),
    }
    assert report["other_exports"] == []
    assert tuple(map(int, report["glibc"].split("."))) >= (2, 14)


def test_a_strangers_library_without_a_table(stranger):
    report = examine(stranger)
    found = by_name(report)
    handlers = ("Plain", "Captured", "CountHandler", "MakeCounterHandler")
    assert found.keys() == set(handlers)
    plain = found["Plain"]
    assert plain["api_version"] == OURS and not plain["problem"]
    assert found["Captured"]["traits"] == ["command buffer compatible"]
    assert plain["traits"] == []
    made = found["MakeCounterHandler"]
    assert made["state"] == "a type that no table names"
    assert {"aborts", "answers_nothing"} <= set(report["other_exports"])
    assert "libstdc++.so.6" in report["needed"]


def test_a_strangers_python_module():
    module = importlib.import_module("jaxlib.cpu._sparse")
    report = examine(module.__file__)
    assert report["kind"] == "Python module"
    (handler,) = report["handlers"]
    assert handler["name"] in module.registrations()
    assert handler["stages"] == ["execute"] and not handler["problem"]
    assert handler["api_version"] == OURS


def test_a_handler_newer_than_the_runtime():
    report = _library_report.examine(KIT, ("0.4.38", (0, 1)))
    assert not report["loads"]
    assert by_name(report)["xla_ffi_kit.rms_norm"]["problem"] == (
        "built for FFI 0.2, jaxlib 0.4.38 speaks 0.1: update jaxlib, or "
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
    problem = releases.problem((0, 2), "0.9.1", (0, 3), state=True)
    assert problem == "jaxlib 0.9.1 crashes on state of FFI < 0.3"


def test_files_that_are_no_handler_library(tmp_path):
    """library_test has more: folders, cut files, other machines' files."""
    assert refused(tmp_path / "none.so") == (
        "cannot be read: No such file or directory"
    )
    (tmp_path / "empty.so").touch()
    assert "no ELF header" in refused(tmp_path / "empty.so")
    os.mkfifo(tmp_path / "pipe.so")
    assert refused(tmp_path / "pipe.so") == "is not a regular file"
    data = pathlib.Path(KIT).read_bytes()
    other = tmp_path / "other.so"
    other.write_bytes(data[:18] + b"\xf3" + data[19:])
    assert refused(other).startswith("is built for riscv64, not for ")
    interpreter = os.path.realpath(sys.executable)
    assert refused(interpreter) == "is a shared library without any FFI handler"


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
            elf.read(str(path))
            outcomes.add("read")
        except ValueError as error:
            outcomes.add(str(error).split(" ")[1])
    assert {"read", "malformed", "truncated"} <= outcomes


def test_a_library_that_dies_or_hangs_when_loaded(
    tmp_path, monkeypatch, capsys
):
    library = compile_stranger(tmp_path, "-DDIES_WHEN_LOADED=std::abort()")
    assert doctor.main([str(library)]) == 1
    assert capsys.readouterr().err == (
        f"doctor: {library} ends the process that loads it (SIGABRT)\n"
    )
    compile_stranger(tmp_path, "-DDIES_WHEN_LOADED=loops()")
    limited = "doctor._SECONDS = [600, 1]; doctor._work()"
    work = doctor._WORK.replace("doctor._work()", limited)
    monkeypatch.setattr(doctor, "_WORK", work)
    assert doctor.main([str(library), "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "path": str(library),
        "problem": f"{library} was not read and loaded within 1 s",
    }


# As `python -m xla_ffi_kit doctor` does.
COMMAND = "import runpy; runpy.run_module('xla_ffi_kit', None, '__main__')"


def test_command_line(tmp_path):
    done = run_python(COMMAND, "doctor", KIT)
    assert done.returncode == 0, done.stderr
    assert "loads every handler" in done.stdout
    (tmp_path / "a\x1b[2J").write_text("text")
    done = run_python(COMMAND, "doctor", tmp_path / "a\x1b[2J")
    assert done.returncode == 1 and done.stdout == ""
    name = f"{tmp_path}/a\\x1b[2J"  # no command to a terminal
    problem = "is not a shared library (no ELF header)"
    assert done.stderr == f"doctor: {name} {problem}\n"


def test_one_handler_is_one():
    state = {"path": "a.so", "platforms": ["cpu"], "api_version": "0.2"}
    state |= {"problem": None, "absent": False}
    for count, said in ((1, "1 handler, FFI 0.2"), (2, "2 handlers, FFI 0.2")):
        assert _text._library_row(state | {"handlers": count})[-1] == said


AUTHOR = """
import xla_ffi_kit
cosine = xla_ffi_kit.c_function(
    "double(double x)", library="libm.so.6", symbol="cos", name="author.cos")
library = xla_ffi_kit.HandlerLibrary("missing.so")
op = xla_ffi_kit.FfiOp(
    "author.op", lambda x: x, kernel_axes=0, libraries=[library]
)
def state():
    return {"scale": "on", "norm": "off"}
"""


def test_environment_with_a_package_and_a_switch(tmp_path):
    about = tmp_path / "author-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: author\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[xla_ffi_kit.doctor]\ntheir title = author:state\n"
    )
    (tmp_path / "author.py").write_text(AUTHOR)
    done = run_python(
        COMMAND,
        *("doctor", "--json", "--import", "author"),
        cwd=tmp_path,
        XLA_FFI_KIT_REFERENCE="relu",
    )
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert report["devices"]["cpu"] >= 1
    assert report["versions"]["jaxlib"] == jaxlib.__version__
    assert report["switched"] == "relu"
    assert report["sections"]["their title"] == {"scale": "on", "norm": "off"}
    states = {(o["name"], o["platform"]): o for o in report["operations"]}
    assert states["author.op", "cpu"]["problem"]
    assert "missing.so does not exist" in states["author.op", "cpu"]["why"]
    assert (
        states["xla_ffi_kit.relu", "cpu"]["why"]
        == "use_reference switches it off"
    )
    cosine = states["author.cos", "cpu"]
    assert cosine["runs"] == "a C function"
    assert "cos of libm.so.6, double(double x)" in cosine["why"]
    state = states["xla_ffi_kit.rms_norm", "cpu"]
    assert (state["runs"], state["problem"]) == (os.path.basename(KIT), False)


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nosuch:fn"], "nosuch:fn: cannot import 'nosuch': ModuleNotFound"),
        (
            ["json.tool"],
            "json.tool: expected a file, got the name of a module: `--import "
            "json.tool` reports on its operations, `json.tool:OPERATION` on",
        ),
        (["no_module"], "no_module cannot be read: No such file"),
        (["json:dumps"], "json:dumps: expected an operation, got <function "),
        (
            ["--import", "leaves_at_once"],
            "--import: cannot import 'leaves_at_once': SystemExit: 3",
        ),
    ],
)
def test_mistakes_on_the_command_line(
    arguments, said, tmp_path, monkeypatch, capsys
):
    (tmp_path / "leaves_at_once.py").write_text("import sys\nsys.exit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert doctor.main(arguments) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"doctor: {said}")
    assert printed.err.count("\n") == 1
