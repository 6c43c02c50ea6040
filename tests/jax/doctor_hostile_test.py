"""The doctor on files that claim what no linker would write, and on mistakes.

Each gets a sentence, soon, and in little memory.
"""

import json
import os
import pathlib
import platform
import random
import struct
import subprocess
import sys

import pytest

import xla_ffi_kit
from xla_ffi_kit import doctor
from xla_ffi_kit.doctor import _elf_symbols, _library_report
from xla_ffi_kit.doctor._library_report import Runtime, examine
from xla_ffi_kit.library import elf

KIT = pathlib.Path(xla_ffi_kit.ops.LIBRARIES[0].path)
NOBODY = Runtime(None, None)
DYNSYM, STRTAB, DYNAMIC, VERNEED = 11, 3, 6, 0x6FFFFFFE
MACHINE = {name: number for number, name in elf._MACHINES.items()}

SYMBOL = struct.Struct("<IBBHQQ")
GLOBAL_FUNCTION = 0x12


def shared_object(path, body, *sections):
    """An ELF file of this machine, with the sections named.

    Each is (type, offset into the body or beyond, size, link, entry size).
    """
    start = 64 + 64 * len(sections)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\2\1\1".ljust(16, b"\0"),
        *(3, MACHINE[platform.machine()], 1, 0, 0, 64),
        *(0, 64, 0, 0, 64, len(sections), 0),
    )
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, at, length, link, 0, 0, size)
        for kind, at, length, link, size in (
            (kind, min(start + at, 2**64 - 1), *rest)
            for kind, at, *rest in sections
        )
    )
    path.write_bytes(header + table + body)
    return path


def refused(path):
    with pytest.raises(_library_report.NotAHandlerLibraryError) as caught:
        examine(str(path), NOBODY)
    text = str(caught.value)
    assert text.startswith(str(path)) and "\n" not in text
    return text.removeprefix(str(path)).strip()


def test_a_string_table_beyond_all_numbers(tmp_path):
    symbol = SYMBOL.pack(0, GLOBAL_FUNCTION, 0, 1, 0, 0)
    for at in (2**63, 2**64 - 300, 2**62, 10**6):
        path = shared_object(
            tmp_path / "far.so",
            symbol,
            (DYNSYM, 0, 24, 1, 24),
            (STRTAB, at, 1, 0, 0),
        )
        assert refused(path) == "is malformed (a name lies outside the file)"


def test_a_version_that_is_no_number(tmp_path):
    for version in ("2..3", "2.", ".3", "2.\u0663", "9" * 5000, "PRIVATE"):
        library = _elf_symbols.SharedLibrary(
            (), (), (), (f"GLIBC_{version}", "GLIBC_2.3"), True
        )
        assert library.glibc == (2, 3), version
    data = KIT.read_bytes()
    name = next(
        version.encode()
        for version in _elf_symbols.read(str(KIT)).versions
        if version.startswith("GLIBC_2.") and len(version) == 10
    )
    path = tmp_path / "versions.so"
    path.write_bytes(data.replace(name + b"\0", name[:7] + b"..3\0"))
    assert "GLIBC_2..3" in refused(path)  # the linker does not find it either


def test_many_sections_over_one_range(tmp_path):
    entry = struct.pack("<qQ", 1, 0)  # needs the library named at 0
    body = entry * 50_000 + b"lib.so\0"
    sections = [(DYNAMIC, 0, len(entry) * 50_000, 2000, 16)] * 2000
    path = shared_object(
        tmp_path / "many.so",
        body,
        *sections,
        (STRTAB, len(entry) * 50_000, 7, 0, 0),
    )
    assert refused(path) == "is malformed (2000 sections of type 0x6)"


def test_many_names_that_share_their_bytes(tmp_path):
    count, name = 100_000, b"x" * 60_000 + b"\0"
    body = SYMBOL.pack(0, GLOBAL_FUNCTION, 0, 1, 0, 0) * count + name
    path = shared_object(
        tmp_path / "names.so",
        body,
        (DYNSYM, 0, 24 * count, 1, 24),
        (STRTAB, 24 * count, len(name), 0, 0),
    )
    assert "is malformed (more than" in refused(path)
    endless = SYMBOL.pack(0, GLOBAL_FUNCTION, 0, 1, 0, 0) + b"x" * 10**6
    path = shared_object(
        tmp_path / "name.so",
        endless,
        (DYNSYM, 0, 24, 1, 24),
        (STRTAB, 24, 10**6, 0, 0),
    )
    assert "is malformed (a name without an end" in refused(path)


def test_a_table_whose_entries_overlap(tmp_path):
    path = shared_object(
        tmp_path / "overlap.so",
        b"\0" * 10**6,
        (DYNSYM, 0, 10**6, 0, 1),
    )
    assert refused(path) == "is malformed (a table of entries of 1 bytes)"


def test_lists_of_versions_that_share_their_bytes(tmp_path):
    """65,535 in each of 1,000 lists, which are one, in a file of 280 kB."""
    count, words = 1000, 65_540
    needs = b"".join(
        struct.pack("<HHIII", 1, 65535, 0, 16 * (count - i), 16)
        for i in range(count)
    )
    path = shared_object(
        tmp_path / "versions.so",
        needs + b"\4\0\0\0" * words,
        (VERNEED, 0, len(needs), 1, 0),
        (STRTAB, len(needs), 4 * words, 0, 0),
    )
    assert "is malformed (more than" in refused(path)


def test_a_program_header_of_four_gigabytes(tmp_path):
    path = tmp_path / "segments.so"
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\2\1\1".ljust(16, b"\0"),
        *(3, MACHINE[platform.machine()], 1, 0, 64, 0),
        *(0, 64, 65535, 65535, 64, 0, 0),
    )
    path.write_bytes(header)
    os.truncate(path, 5 << 30)  # none of it on the disk
    assert refused(path) == "is malformed (segments of 65535 bytes)"


def test_what_is_no_file(tmp_path):
    pipe = tmp_path / "pipe.so"
    os.mkfifo(pipe)
    assert refused(pipe) == "is not a regular file"
    assert refused("/dev/zero") == "is not a regular file"
    with pytest.raises(
        xla_ffi_kit.errors.HandlerLibraryError, match="regular file"
    ):
        assert xla_ffi_kit.HandlerLibrary(pipe).handlers


def test_names_are_no_commands_to_a_terminal(tmp_path):
    symbol = SYMBOL.pack(0, GLOBAL_FUNCTION, 0, 1, 0, 0)
    path = shared_object(
        tmp_path / "names.so",
        symbol + b"\x1b[2Jred\n\0XLA_FFI_CallFrame\0",
        (DYNSYM, 0, 24, 1, 24),
        (STRTAB, 24, 20, 0, 0),
    )
    assert _elf_symbols.read(str(path)).functions == ("\\x1b[2Jred\\n",)


def test_the_process_that_reads_has_the_limits(tmp_path):
    """It ends before it reads a file that takes more than it may have."""
    code = """if True:
        import sys
        from xla_ffi_kit.doctor import _elf_symbols, _library_report, _probe
        report = _library_report._RUN_PROBE.replace(
            "_probe.main(",
            "_probe._elf_symbols.read = lambda path: bytes(5 << 30)\\n"
            "_probe.main(")
        _library_report._RUN_PROBE = report
        try:
            _library_report.examine("any", _library_report.Runtime(None, None))
        except _library_report.NotAHandlerLibraryError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "any cannot be read: it takes too much memory\n", (
        done.stderr
    )


def places_to_damage(data):
    """Where a library's headers and the tables of the linker are."""
    header = struct.unpack_from("<16sHHIQQQIHHHHHH", data)
    sections_at, count = header[6], header[12]
    yield from range(64 + header[10] * 56)
    yield from range(sections_at, sections_at + 64 * count)
    for i in range(count):
        s = struct.unpack_from("<IIQQQQIIQQ", data, sections_at + 64 * i)
        if s[1] in (DYNSYM, STRTAB, DYNAMIC, VERNEED):
            yield from range(s[4], s[4] + min(s[5], 4096))


def damaged(count):
    """The kit's library with some bytes changed, again and again."""
    whole = KIT.read_bytes()
    places = list(places_to_damage(whole))
    choose = random.Random(31)
    for _ in range(count):
        data = bytearray(whole)
        for _ in range(choose.randrange(1, 16)):
            at = choose.choice(places)
            data[at] = choose.choice((0, 1, 127, 128, 255, data[at] ^ 1))
        yield bytes(data)


# In a process without JAX, which forks for each file as the doctor starts
# Python for each. Says how each ended, and what it wrote.
PROBE_EACH = """
import json, os, sys, types
package = types.ModuleType("xla_ffi_kit")
package.__path__ = [sys.argv.pop(1)]
sys.modules["xla_ffi_kit"] = package
from xla_ffi_kit.doctor import _probe
for line in sys.stdin:
    path = line.strip()
    output = path + ".json"
    child = os.fork()
    if not child:
        try:
            _probe.main(path, output)
        finally:
            os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = json.load(open(output)) if os.path.exists(output) else None
    os.path.exists(output) and os.remove(output)
    print(json.dumps([status, found]), flush=True)
"""


def test_no_damage_keeps_the_process_from_an_answer(tmp_path):
    package = pathlib.Path(doctor.__file__).parents[1]
    driver = subprocess.Popen(
        [sys.executable, "-c", PROBE_EACH, package],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    outcomes = []
    for number, data in enumerate(damaged(200)):
        path = tmp_path / f"{number}.so"
        path.write_bytes(data)
        driver.stdin.write(f"{path}\n")
        driver.stdin.flush()
        status, found = json.loads(driver.stdout.readline())
        path.unlink()
        assert found is not None, (number, status)
        if status:  # it ended where the library was loaded, not read
            assert found == {"error": "is being loaded"}, (number, status)
            # By a signal, or the linker's own way out.
            assert status < 0 or status == 127, (number, status)
            outcomes.append("died")
        elif "error" in found:
            assert "\n" not in found["error"]
            outcomes.append(found["error"].split("(")[0].split(":")[0])
        else:
            outcomes.append("read" if found["handlers"] else "none")
    driver.stdin.close()
    assert driver.wait() == 0
    assert {"read", "is malformed ", "is truncated "} <= set(outcomes), outcomes


def test_no_damage_keeps_the_doctor_from_a_sentence(tmp_path, capsys):
    path = tmp_path / "damaged.so"
    statuses = set()
    for data in damaged(12):
        path.write_bytes(data)
        status = doctor.main([str(path)])
        said = capsys.readouterr()
        statuses.add(status)
        assert status in (0, 1)
        if not said.out:
            assert said.err.startswith(f"doctor: {path} "), said.err
            assert said.err.count("\n") == 1, said.err
    assert statuses == {0, 1}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["nosuch:fn"],
            "nosuch:fn: cannot import 'nosuch': ModuleNotFoundError: No module "
            "named 'nosuch'",
        ),
        (
            ["json:dumps"],
            "json:dumps: expected an operation, got <function dumps at",
        ),
        (
            ["xla_ffi_kit:nosuch"],
            "xla_ffi_kit:nosuch: module 'xla_ffi_kit' has no attribute "
            "'nosuch'",
        ),
        (["xla_ffi_kit:"], "xla_ffi_kit:: module 'xla_ffi_kit' has no "),
        ([":fn"], ":fn: cannot import '': ValueError: "),
        (
            ["--import", "nosuch"],
            "--import: cannot import 'nosuch': ModuleNotFoundError: ",
        ),
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
    assert doctor.main([*arguments, "--json"]) == 1
    assert (
        said.split(": ", 1)[1] in json.loads(capsys.readouterr().out)["problem"]
    )
