"""The cache of compiled libraries: one compile for all, whatever goes wrong."""

import contextlib
import ctypes
import dataclasses
import json
import os
import random
import shutil
import signal
import time

import inline_data
import pytest
from common import raises
from inline_data import answer, build, compiles, program, source

from xla_ffi_kit.compile import cache, commands
from xla_ffi_kit.compile.dependencies import digest_of
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
        "echo 'f.cc:1:1: internal compiler error: in f' >&2; exit 4",
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


@pytest.mark.parametrize("damage", ["other", "entry"])
def test_a_damaged_entry_is_compiled_again(folder, damage):
    target, library = build()
    entry = library.parent / "entry.json"
    if damage == "other":
        data = bytearray(library.read_bytes())
        data[len(data) // 2] ^= 1
        library.write_bytes(data)
    else:
        entry.write_text('{"file": ')
    assert build() == (target, library)
    assert compiles(folder) == 2
    assert digest_of(library) == json.loads(entry.read_text())["sha256"]


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
    others = [
        top / name / file
        for name in ("project", "0" * 32, "1" * 31 + "x")
        for file in ("data", "entry.json", "f-0123456789abcdef.so")
    ]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"of": "another program"}')
    # An entry, which somebody linked to.
    shutil.copytree(library.parent, folder / "linked")
    (top / ("3" * 32)).symlink_to(folder / "linked")
    assert cache.clear() == 1 and not library.exists()
    others.append(top / ("3" * 32) / "entry.json")
    assert all(path.exists() for path in others)
    # Nor is it listed, or removed because it is old.
    for path in others:
        os.utime(path, (1, 1))
    build()
    assert all(path.exists() for path in others)
    assert len(cache.entries()) == 1


def age(library, days):
    entry = library.parent / "entry.json"
    then = time.time() - days * 24 * 3600
    os.utime(entry, (then, then))
    return entry


def test_what_was_not_used_for_long_is_removed(folder):
    _, kept = build("int kept;\n")
    _, used = build("int used;\n")
    _, unused = build("int unused;\n")
    loaded = ctypes.CDLL(unused)
    age(kept, cache.UNUSED_DAYS - 1)
    age(used, cache.UNUSED_DAYS + 1)
    age(unused, cache.UNUSED_DAYS + 1)
    assert build("int used;\n")[1] == used  # which counts from now on
    assert time.time() - os.stat(used.parent / "entry.json").st_mtime < 1000
    assert unused.exists()
    build("int another;\n")
    assert kept.exists() and used.exists() and not unused.parent.exists()
    assert loaded.XlaFfiKit_GetHandlerTable
    assert compiles(folder) == 4


def test_of_many_entries_the_last_used_stay(folder, monkeypatch):
    monkeypatch.setattr(cache, "MOST_ENTRIES", 2)
    libraries = [build(f"int {name};\n")[1] for name in "abc"]
    assert [path.exists() for path in libraries] == [False, True, True]
    age(libraries[2], 3)
    assert build("int b;\n")[1] == libraries[1]
    build("int d;\n")
    assert [path.exists() for path in libraries] == [False, True, False]
