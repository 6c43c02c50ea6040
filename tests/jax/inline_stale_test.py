"""A library of the cache is the one that the compiler would make now."""

import os
import subprocess

import inline_data
import pytest
from inline_data import answer, compiles, program

folder = inline_data.folder

INCLUDED = "#include <constants.h>\n"


def write(path, number):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#define ANSWER {number}\n")


def expect(folder, number, code, *flags):
    """The answer, which is compiled once: asked again, it is in the cache."""
    assert answer(code, *flags) == number
    before = compiles(folder)
    assert answer(code, *flags) == number
    assert compiles(folder) == before


# --- The compiler -------------------------------------------------------------


@pytest.mark.parametrize("behind", ["words", "launcher", "ccache"])
def test_the_compiler_is_part_of_the_key(folder, monkeypatch, behind):
    """By its words, and by what a launcher starts: it, or one of its name."""
    launcher = program(folder / "launcher", 'exec "$@"')
    started = folder / "real" / "c++"
    for number in (1, 2):
        words = f"{folder}/compiler -DANSWER={number}"
        if behind == "words":
            monkeypatch.setenv("CXX", words)
        else:
            program(started, f'exec {words} "$@"')
            monkeypatch.setenv("CXX", f"{launcher} {started}")
        if behind == "ccache" and number == 1:
            program(
                folder / "bin" / "ccache",
                'exec "$(dirname $0)"/../real/c++ "$@"',
            )
            (folder / "bin" / "c++").symlink_to("ccache")
            paths = f"{folder}/bin:{folder}/real:{os.environ['PATH']}"
            monkeypatch.setenv("PATH", paths)
        if behind == "ccache":
            monkeypatch.delenv("CXX")
        expect(folder, number, "")


# --- Headers ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "flags", "variable"),
    [
        (INCLUDED, ["-I{}"], None),
        ("", ["-include", "{}/constants.h"], None),
        (INCLUDED, [], "CPLUS_INCLUDE_PATH"),
        ('#define H "{}/constants.h"\n#include H\n', [], None),
    ],
    ids=str,
)
def test_a_header_that_changes(folder, monkeypatch, code, flags, variable):
    inner = folder / "inner"
    write(inner / "constants.h", 1)
    code = code.format(inner)
    flags = [flag.format(inner) for flag in flags]
    if variable:
        monkeypatch.setenv(variable, str(inner))
    expect(folder, 1, code, *flags)
    before = os.stat(inner / "constants.h")
    write(inner / "constants.h", 2)
    # As a copy with its times does, and of the same size.
    os.utime(inner / "constants.h", ns=(before.st_atime_ns, before.st_mtime_ns))
    expect(folder, 2, code, *flags)
    # That is only touched is the same.
    before = compiles(folder)
    write(inner / "constants.h", 2)
    assert answer(code, *flags) == 2
    assert compiles(folder) == before


def test_a_header_that_changes_while_it_is_compiled(folder, monkeypatch):
    write(folder / "constants.h", 1)
    slow = program(
        folder / "slow",
        f'{folder}/compiler "$@" || exit 1',
        f"echo '#define ANSWER 2' >{folder}/constants.h",
    )
    os.utime(folder / "constants.h", (1, 1))
    monkeypatch.setenv("CXX", str(slow))
    assert answer(INCLUDED, f"-I{folder}") == 2


@pytest.mark.parametrize(
    ("code", "flags"),
    [
        (INCLUDED, ["-Iinner"]),
        ("", ["-include", "inner/constants.h"]),
        ("#include <inner/constants.h>\n", "CPLUS_INCLUDE_PATH=:/nowhere"),
    ],
    ids=str,
)
def test_a_relative_path_is_that_of_the_folder(
    folder, monkeypatch, code, flags
):
    if isinstance(flags, str):
        monkeypatch.setenv(*flags.split("="))
        flags = []
    for number in (1, 2, 1):
        here = folder / str(number)
        write(here / "inner" / "constants.h", number)
        monkeypatch.chdir(here)
        expect(folder, number, code, *flags)


# --- Other files --------------------------------------------------------------


@pytest.mark.parametrize("named", ["by flags", "by variables", "by CXX"])
def test_a_library_to_link_with(folder, monkeypatch, named):
    def archive(into, number):
        into.mkdir(exist_ok=True)
        (into / "x.cc").write_text(f"int number() {{ return {number}; }}")
        run = {"cwd": into, "check": True}
        subprocess.run(["c++", "-fPIC", "-c", "x.cc"], **run)
        subprocess.run(["ar", "rc", "libnumber.a", "x.o"], **run)

    code = "int number();\n#define ANSWER number()\n"
    first, second = folder / "first", folder / "second"
    first.mkdir()
    flags = (f"-L{first}", f"-L{second}", "-lnumber")
    if named == "by variables":
        monkeypatch.setenv("LIBRARY_PATH", f"{first}:{second}")
        flags = ("-l:libnumber.a",)
    if named == "by CXX":
        # The object that needs it comes after it.
        words = ("-Wl,-u,_Z6numberv", *flags)
        monkeypatch.setenv("CXX", f"{folder}/compiler {' '.join(words)}")
        flags = ()
    archive(second, 1)
    expect(folder, 1, code, *flags)
    archive(second, 2)
    expect(folder, 2, code, *flags)
