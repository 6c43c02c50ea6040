"""A library of the cache is the one that the compiler would make now."""

import os
import subprocess

import inline_data
import pytest
from inline_data import ANSWER, answer, build, compiles, program

import xla_ffi_kit
from xla_ffi_kit.strings import cache, compiler_flags

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


def test_a_variable_that_leads_to_other_headers(folder, monkeypatch):
    for number in (1, 2):
        write(folder / str(number) / "constants.h", number)
        monkeypatch.setenv("CPLUS_INCLUDE_PATH", f"{folder}/{number}")
        expect(folder, number, INCLUDED)


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


@pytest.mark.parametrize(
    "flags",
    [
        *("-Iinner", "-I inner", "-isystem inner", "-isysteminner", "-Linner"),
        *("-idirafter inner", "-iquote inner", "-Wp,-Iinner", "@words", "@{}"),
        *("CPATH=inner", "CPATH=/nowhere:inner", "LIBRARY_PATH=:/nowhere"),
        *("-include inner/constants.h", "-fprofile-use=a", "inner/a.o"),
    ],
)
def test_so_is_that_of_any_other_flag_or_variable(tmp_path, monkeypatch, flags):
    (tmp_path / "words").write_text("-Iinner")
    if "=" in flags and not flags.startswith("-"):
        monkeypatch.setenv(*flags.split("="))
        flags = ""
    flags = flags.format(tmp_path / "words").split()
    found = []
    for current in (tmp_path, "/"):
        monkeypatch.chdir(current)
        found.append(compiler_flags.surroundings(flags))
    assert found[0] != found[1]


def test_without_relative_paths_all_folders_have_one_entry(folder, monkeypatch):
    flags = ["-O1", "-DANSWER=1", f"-I{folder}", "-march=native", "-Wall"]
    for number in (1, 2):
        (folder / str(number)).mkdir()
        monkeypatch.chdir(folder / str(number))
        assert answer("", *flags) == 1
    assert compiles(folder) == 1


def test_a_file_of_flags_that_changes(folder):
    for number in (1, 2):
        (folder / "inner").write_text(f"-DANSWER={number}")
        (folder / "words").write_text(f"-O1 @{folder}/inner")
        expect(folder, number, "", f"@{folder}/words")


# --- Other files --------------------------------------------------------------


def test_other_headers_of_the_kit_are_tracked(folder):
    build('#include "xla_ffi/core/handler.h"\n')
    (entry,) = cache.entries()
    tracked = {os.path.basename(path) for path in entry.files}
    # Beside those that every string includes, which are in the key.
    assert {"handler.h", "cmath"} <= tracked
    assert "kit.h" not in tracked


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


# --- What is no part of the key -----------------------------------------------

LOOPS = """
@xla_ffi_kit.rows("for (int64_t i = 0; i < x.size(); ++i)\\n  y[i] = x[i];",
                  results=["y"], dtypes="f32")
def copied(x):
    return x

@xla_ffi_kit.elementwise("2 * x", dtypes="f32")
def doubled(x):
    return 2 * x
"""


def test_loops_that_move_are_not_compiled_again(folder):
    libraries = set()
    for lines, file in ((0, "a.py"), (5, "a.py"), (5, "/tmp/cell 7/\\b.py")):
        names = {"xla_ffi_kit": xla_ffi_kit, "__name__": "loops"}
        exec(compile("\n" * lines + LOOPS, file, "exec"), names)
        libraries |= {
            names[name].spec.libraries[0].path for name in ("copied", "doubled")
        }
    assert len(libraries) == 2
    assert compiles(folder) == 2


def test_a_directive_of_the_author_is_part_of_the_key(folder):
    code = '#line 3 "a.cc"\n#define ANSWER __LINE__\n'
    assert answer(code) == 4
    assert answer(code.replace("3", "7")) == 8
    assert build(ANSWER, "-DANSWER=1") and compiles(folder) == 3
