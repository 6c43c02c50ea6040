"""The cache of compiled libraries: one compile for all, whatever goes wrong.

What it gives is what the compiler would make now, and what nobody else wrote.
"""

import contextlib
import ctypes
import dataclasses
import os
import pathlib
import random
import shutil
import signal
import stat
import subprocess
import time

import inline_data
import pytest
from common import raises
from inline_data import answer, build, compiles, program, source

from xla_ffi_kit.compile import cache, commands
from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.strings import operation
from xla_ffi_kit.strings.text.source import Place

folder = inline_data.folder


def fork(code):
    """A process, with a group of its own, that ends with the answer of code.

    It has imported what compiles, which takes longest.
    """
    child = os.fork()
    if child == 0:
        status = 255
        try:
            os.setpgid(0, 0)
            status = answer(code)
        finally:
            os._exit(status)
    # Where it is refused, the child has done it, and runs.
    with contextlib.suppress(PermissionError):
        os.setpgid(child, child)
    return child


def end_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_sixteen_cold_processes_compile_once(folder):
    children = [fork("#define ANSWER 42\n") for _ in range(16)]
    assert [end_of(child) for child in children] == 16 * [42]
    assert compiles(folder) == 1


def test_killed_at_any_moment_the_next_run_compiles(folder):
    code, begin = "#define ANSWER 7\n", time.monotonic()
    assert end_of(fork(code)) == 7
    whole, killed = time.monotonic() - begin, 0
    for i in range(int(os.environ.get("XLA_FFI_KIT_KILLS", "4"))):
        cache.clear()
        child = fork(code)
        time.sleep(random.Random(i).uniform(0, whole))
        os.killpg(child, signal.SIGKILL)
        killed += end_of(child) == -signal.SIGKILL
        cache.clear()  # of an entry that was whole, so that the next compiles
        assert end_of(fork(code)) == 7
        entry, locks = sorted(cache.folder().iterdir())
        left = sorted(path.name.partition("-")[0] for path in entry.iterdir())
        assert left == ["entry.json", "f"] and locks.name == "locks", left
    assert killed > 0


def test_a_function_that_moves_is_not_compiled_again(folder):
    build()
    moved = source("")
    moved = dataclasses.replace(moved, place=Place("g.cc", 9))
    operation.build(moved, ())
    assert compiles(folder) == 1


@pytest.mark.parametrize(
    "fails",
    [
        "kill -9 $$",
        "echo 'c++: fatal error: Killed signal terminated program' >&2; exit 1",
        "echo 'fatal error: /out.s: No space left on device' >&2; exit 1",
    ],
)
def test_a_compiler_that_fails_once_is_asked_again(folder, monkeypatch, fails):
    once = folder / "once"
    wrapper = program(
        folder / "wrapper",
        f"if [ ! -e {once} ]; then touch {once}; {fails}; fi",
        f'exec {folder}/compiler "$@"',
    )
    monkeypatch.setenv("CXX", str(wrapper))
    said = "f: the compiler was interrupted, which is not the code's fault: "
    with pytest.raises(BuildError, match=said):
        build()
    build()
    assert compiles(folder) == 1


def test_words_of_the_code_are_no_interruption(folder, monkeypatch):
    code = 'const char* why = "Killed, out of memory" + nothing_there;\n'
    monkeypatch.chdir(folder)  # The compiler shows the line of the file.
    (folder / "f.cc").write_text(code)
    with pytest.raises(BuildError, match="f: does not compile: "):
        build(code)


@pytest.mark.parametrize("damage", ["library", "entry"])
def test_a_damaged_entry_is_compiled_again(folder, damage):
    target, library = build()
    data = library.read_bytes()
    if damage == "library":
        library.write_bytes(data[:-1])
    else:
        (library.parent / "entry.json").write_text('{"file": ')
    assert build() == (target, library)
    assert compiles(folder) == 2 and library.read_bytes() == data


def test_a_folder_that_cannot_be_written(folder, monkeypatch):
    (folder / "file").write_text("")
    monkeypatch.setenv("XLA_FFI_KIT_CACHE", f"{folder}/file/cache")
    said = (
        f"f: the cache folder {folder}/file/cache cannot be used (File "
        "exists); set XLA_FFI_KIT_CACHE to one that is writable and has room"
    )
    with raises(BuildError, said):
        build()


def test_listing_and_clearing(folder, capsys):
    target, library = build()
    assert commands.cache([]) == 0
    assert capsys.readouterr().out.splitlines() == [
        str(folder / "cache"),
        f"  {target}  {library.stat().st_size >> 10} KiB",
    ]
    assert commands.cache(["--clear"]) == 0
    assert capsys.readouterr().out == "removed 1 entries\n"
    assert not library.exists()
    assert [p.name for p in (folder / "cache").iterdir()] == ["locks"]
    build()
    assert compiles(folder) == 2


def test_clearing_leaves_what_is_not_the_kits(folder):
    _, library = build()
    top = folder / "cache"
    others = [top / name / "entry.json" for name in ("project", "0" * 32)]
    for path in others:
        path.parent.mkdir()
        path.write_text('{"of": "another program"}')
    # An entry, which somebody linked to.
    shutil.copytree(library.parent, folder / "linked")
    (top / ("3" * 32)).symlink_to(folder / "linked")
    assert len(cache.entries()) == cache.clear() == 1 and not library.exists()
    others.append(top / ("3" * 32) / "entry.json")
    assert all(path.exists() for path in others)


def age(library, days):
    entry = library.parent / "entry.json"
    then = time.time() - days * 24 * 3600
    os.utime(entry, (then, then))
    return entry


def test_what_was_not_used_for_long_is_removed(folder, monkeypatch):
    _, kept = build("int kept;\n")
    _, used = build("int used;\n")
    _, unused = build("int unused;\n")
    loaded = ctypes.CDLL(unused)
    age(kept, cache.UNUSED_DAYS - 1)
    age(used, cache.UNUSED_DAYS + 1)
    age(unused, cache.UNUSED_DAYS + 1)
    assert build("int used;\n")[1] == used  # which counts from now on
    assert unused.exists()
    build("int another;\n")
    assert kept.exists() and used.exists() and not unused.parent.exists()
    assert loaded.XlaFfiKit_GetHandlerTable
    assert compiles(folder) == 4
    # Of many entries the last used stay.
    monkeypatch.setattr(cache, "MOST_ENTRIES", 3)
    build("int one_more;\n")
    assert not kept.exists() and used.exists()


# --- What the compiler would make now -----------------------------------------

INCLUDED = "#include <constants.h>\n"


def write(path, number):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#define ANSWER {number}\n")


def expect(folder, number, code, *flags):
    """The answer, which is compiled once: asked again, it is in the cache."""
    time.sleep(2 * cache._TICK_NS / 1e9)  # so that what it reads is old enough
    assert answer(code, *flags) == number
    before = compiles(folder)
    assert answer(code, *flags) == number
    assert compiles(folder) == before


def test_the_compiler_is_part_of_the_key(folder, monkeypatch):
    """By its words, and by each program that they name."""
    launcher = program(folder / "launcher", 'exec "$@"')
    for number in (1, 2):
        words = f"{folder}/compiler -DANSWER={number}"
        monkeypatch.setenv("CXX", words)
        expect(folder, number, "")
        started = program(folder / "started", f'exec {words} "$@"')
        monkeypatch.setenv("CXX", f"{launcher} {started}")
        expect(folder, number, "")


@pytest.mark.parametrize("how", ["flag", "relative flag", "variable"])
def test_a_header_that_changes(folder, monkeypatch, how):
    inner, flags = folder / "inner", [f"-I{folder}/inner"]
    if how == "relative flag":
        monkeypatch.chdir(folder)
        flags = ["-Iinner"]
    elif how == "variable":
        monkeypatch.setenv("CPLUS_INCLUDE_PATH", str(inner))
        flags = []
    write(inner / "constants.h", 1)
    expect(folder, 1, INCLUDED, *flags)
    before = os.stat(inner / "constants.h")
    write(inner / "constants.h", 2)
    # As a copy with its times does, and of the same size.
    os.utime(inner / "constants.h", ns=(before.st_atime_ns, before.st_mtime_ns))
    expect(folder, 2, INCLUDED, *flags)
    # What is only touched is the same.
    before = compiles(folder)
    write(inner / "constants.h", 2)
    assert answer(INCLUDED, *flags) == 2 and compiles(folder) == before
    if how == "relative flag":
        write(folder / "other" / "inner" / "constants.h", 3)
        monkeypatch.chdir(folder / "other")
        expect(folder, 3, INCLUDED, *flags)


def test_a_header_that_changes_while_it_is_compiled(folder, monkeypatch):
    write(folder / "constants.h", 1)
    time.sleep(2 * cache._TICK_NS / 1e9)
    slow = program(
        folder / "slow",
        f'{folder}/compiler "$@" || exit 1',
        f"echo '#define ANSWER 2' >{folder}/constants.h",
    )
    monkeypatch.setenv("CXX", str(slow))
    assert answer(INCLUDED, f"-I{folder}") == 1
    assert answer(INCLUDED, f"-I{folder}") == 2


def test_a_library_to_link_with(folder):
    def archive(into, number):
        into.mkdir(exist_ok=True)
        (into / "x.cc").write_text(f"int number() {{ return {number}; }}")
        run = {"cwd": into, "check": True}
        subprocess.run(["c++", "-fPIC", "-c", "x.cc"], **run)
        subprocess.run(["ar", "rc", "libnumber.a", "x.o"], **run)

    code = "int number();\n#define ANSWER number()\n"
    for number in (1, 2):
        archive(folder / "libraries", number)
        flags = (f"-L{folder}/libraries", "-lnumber")
        expect(folder, number, code, *flags)


# --- What others may have written is not loaded -------------------------------


@pytest.fixture
def unread(monkeypatch):
    """From now on, nothing of the cache is read."""

    def refuse(*args, **kwargs):
        raise AssertionError(f"read {args}")

    def unreadable():
        monkeypatch.setattr(pathlib.Path, "read_bytes", refuse)
        monkeypatch.setattr(cache, "_digest", refuse)

    return unreadable


def refused(folder, problem):
    return raises(
        BuildError,
        f"f: the cache folder {folder}/cache cannot be used: {problem} "
        "XLA_FFI_KIT_CACHE to a folder of your own",
    )


def test_the_cache_of_another_user(folder, monkeypatch, unread):
    build()
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    unread()
    said = f"{folder}/cache belongs to another user, {uid}; set"
    with refused(folder, said):
        build()


@pytest.mark.parametrize("mode", [0o702, 0o720])
def test_a_cache_that_others_may_write(folder, mode, unread):
    build()
    (folder / "cache").chmod(mode)
    unread()
    said = (
        f"others may write to {folder}/cache (mode {mode:o}); run `chmod 700 "
        f"{folder}/cache`, or set"
    )
    with refused(folder, said):
        build()


def test_a_link_to_the_cache_is_followed_once(folder, monkeypatch):
    (folder / "link").symlink_to("cache")
    monkeypatch.setenv("XLA_FFI_KIT_CACHE", str(folder / "link"))
    assert build()[1].parent.parent == folder / "cache"
    (folder / "cache").chmod(0o777)
    with pytest.raises(BuildError, match=f"may write to {folder}/cache "):
        build()


def test_nobody_else_can_write_what_the_kit_writes(folder, monkeypatch):
    new = folder / "new" / "deeper"
    monkeypatch.setenv("XLA_FFI_KIT_CACHE", str(new))
    old = os.umask(0)
    try:
        first = build()
        assert build() == first
    finally:
        os.umask(old)
    for path in (new, new.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_cache_that_is_no_folder(monkeypatch, capsys):
    monkeypatch.setenv("XLA_FFI_KIT_CACHE", "/dev/null")
    said = (
        "the cache folder /dev/null cannot be used: it is no folder; set "
        "XLA_FFI_KIT_CACHE to a folder of your own"
    )
    with raises(BuildError, f"f: {said}"):
        build()
    assert commands.cache([]) == 1
    assert capsys.readouterr().err == f"{said}\n"
