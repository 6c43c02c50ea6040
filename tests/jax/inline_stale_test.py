"""A library of the cache is the one that the compiler would make now."""

import os
import subprocess

import inline_builds
import pytest
from inline_builds import ANSWER, answer, build, compiles

import xla_ffi_kit
from xla_ffi_kit.strings import cache

folder = inline_builds.folder

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


def test_the_words_of_the_compiler_are_part_of_the_key(folder, monkeypatch):
    for number in (1, 2):
        monkeypatch.setenv("CXX", f"{folder}/compiler -DANSWER={number}")
        expect(folder, number, "")


def test_so_is_the_compiler_behind_a_launcher(folder, monkeypatch):
    launcher = folder / "launcher"
    launcher.write_text('#!/bin/sh\nexec "$@"\n')
    launcher.chmod(0o755)
    for number in (1, 2):
        inner = folder / "inner"
        inner.write_text(
            f'#!/bin/sh\nexec {folder}/compiler -DANSWER={number} "$@"\n'
        )
        inner.chmod(0o755)
        monkeypatch.setenv("CXX", f"{launcher} {inner}")
        expect(folder, number, "")


def test_so_is_the_compiler_that_a_launcher_is_called_by(folder, monkeypatch):
    ccache = folder / "bin" / "ccache"
    ccache.parent.mkdir()
    ccache.write_text('#!/bin/sh\nexec "$(dirname $0)"/../real/c++ "$@"\n')
    ccache.chmod(0o755)
    (folder / "bin" / "c++").symlink_to("ccache")
    real = folder / "real" / "c++"
    real.parent.mkdir()
    monkeypatch.delenv("CXX")
    monkeypatch.setenv(
        "PATH", f"{folder}/bin:{folder}/real:{os.environ['PATH']}"
    )
    for number in (1, 2):
        real.write_text(
            f'#!/bin/sh\nexec {folder}/compiler -DANSWER={number} "$@"\n'
        )
        real.chmod(0o755)
        expect(folder, number, "")


# --- Headers ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "flags", "variable"),
    [
        (INCLUDED, ["-I{}"], None),
        pytest.param(
            INCLUDED, ["-isystem", "{}"], None, marks=pytest.mark.release
        ),
        pytest.param(
            INCLUDED, ["-idirafter", "{}"], None, marks=pytest.mark.release
        ),
        pytest.param(
            '#include "constants.h"\n',
            ["-iquote", "{}"],
            None,
            marks=pytest.mark.release,
        ),
        ("", ["-include", "{}/constants.h"], None),
        pytest.param(
            "", ["-imacros", "{}/constants.h"], None, marks=pytest.mark.release
        ),
        pytest.param(INCLUDED, [], "CPATH", marks=pytest.mark.release),
        (INCLUDED, [], "CPLUS_INCLUDE_PATH"),
    ],
    ids=str,
)
def test_a_header_that_changes(folder, monkeypatch, code, flags, variable):
    inner = folder / "inner"
    write(inner / "constants.h", 1)
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
    slow = folder / "slow"
    slow.write_text(
        f'#!/bin/sh\n{folder}/compiler "$@" || exit 1\n'
        f"echo '#define ANSWER 2' >{folder}/constants.h\n"
    )
    slow.chmod(0o755)
    os.utime(folder / "constants.h", (1, 1))
    monkeypatch.setenv("CXX", str(slow))
    assert answer(INCLUDED, f"-I{folder}") == 2


@pytest.mark.parametrize(
    ("code", "flags"),
    [
        (INCLUDED, ["-Iinner"]),
        pytest.param(INCLUDED, ["-I", "inner"], marks=pytest.mark.release),
        pytest.param(
            INCLUDED, ["-isystem", "inner"], marks=pytest.mark.release
        ),
        pytest.param(INCLUDED, ["-isysteminner"], marks=pytest.mark.release),
        pytest.param(
            INCLUDED, ["-idirafter", "inner"], marks=pytest.mark.release
        ),
        pytest.param(INCLUDED, ["-Wp,-Iinner"], marks=pytest.mark.release),
        pytest.param(
            '#include "constants.h"\n',
            ["-iquote", "inner"],
            marks=pytest.mark.release,
        ),
        ("", ["-include", "inner/constants.h"]),
        pytest.param(INCLUDED, ["@words"], marks=pytest.mark.release),
        pytest.param(INCLUDED, ["@{}/words"], marks=pytest.mark.release),
        pytest.param(INCLUDED, "CPATH=inner", marks=pytest.mark.release),
        pytest.param(
            INCLUDED, "CPATH=/nowhere:inner", marks=pytest.mark.release
        ),
        ("#include <inner/constants.h>\n", "CPLUS_INCLUDE_PATH=:/nowhere"),
    ],
    ids=str,
)
def test_a_relative_path_is_that_of_the_folder(
    folder, monkeypatch, code, flags
):
    (folder / "words").write_text("-Iinner")
    if isinstance(flags, str):
        monkeypatch.setenv(*flags.split("="))
        flags = []
    flags = [flag.format(folder) for flag in flags]
    for number in (1, 2, 1):
        here = folder / str(number)
        write(here / "inner" / "constants.h", number)
        (here / "words").write_text("-Iinner")
        monkeypatch.chdir(here)
        expect(folder, number, code, *flags)


def test_without_relative_paths_all_folders_have_one_entry(folder, monkeypatch):
    flags = ["-O1", "-DANSWER=1", f"-I{folder}", "-march=native", "-Wall"]
    for number in (1, 2):
        (folder / str(number)).mkdir()
        monkeypatch.chdir(folder / str(number))
        assert answer("", *flags) == 1
    assert compiles(folder) == 1


def test_a_header_that_a_macro_names(folder):
    write(folder / "constants.h", 1)
    code = f'#define H "{folder}/constants.h"\n#include H\n'
    expect(folder, 1, code)
    write(folder / "constants.h", 2)
    expect(folder, 2, code)


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
