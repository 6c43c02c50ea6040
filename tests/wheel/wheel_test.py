"""The wheel holds what it says, and needs no more than its tag promises."""

import base64
import csv
import dataclasses
import email
import hashlib
import io
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

import make_wheel

WHEEL, MODULE, *SOURCES = map(pathlib.Path, sys.argv[1:])
NAME, VERSION, *_, PLATFORM = WHEEL.stem.split("-")
INFO = f"{NAME}-{VERSION}.dist-info"


@dataclasses.dataclass(frozen=True)
class Expected:
    """What a wheel has beside what every wheel has.

    Attributes:
      places: some of its files, below it.
      requires: its requirements after JAX's and NumPy's.
      extras: the names of its extras.
      entry_points: its entry_points.txt.
      megabytes: packed and unpacked, without CUDA, at most.
    """

    places: tuple[str, ...]
    requires: tuple[str, ...]
    extras: tuple[str, ...]
    entry_points: str
    megabytes: tuple[float, float]


EXPECTED = {
    "xla_ffi_kit": Expected(
        # What an author needs without the kit's sources.
        (
            "xla_ffi_kit/testing/__init__.py",
            "xla_ffi_kit/include/xla/ffi/api/ffi.h",
            "xla_ffi_kit/include/xla_ffi/core/call.cc",
            "xla_ffi_kit/include/xla_ffi/core/call.h",
            "xla_ffi_kit/include/xla_ffi/core/handler.h",
        ),
        ("ziglang>=0.17; extra == 'inline'",),
        ("inline",),
        "[console_scripts]\nxla-ffi-kit = xla_ffi_kit.__main__:main\n",
        (1.0, 2.8),
    ),
    "xla_ffi_accelerate": Expected(
        ("xla_ffi_accelerate_plugin.py",),
        (f"xla_ffi_kit=={VERSION}",),
        (),
        "[jax_plugins]\nxla_ffi_accelerate = xla_ffi_accelerate_plugin\n\n"
        "[xla_ffi_kit.doctor]\naccelerate = xla_ffi_accelerate.switch:state\n",
        (1.5, 4.0),
    ),
}[NAME]
# PEP 600: the newest versions on a system with that glibc. The pinned compiler
# links its own C++ library into the CPU's library, which needs none.
PROMISED = {
    "cpu": {"GLIBC": "2.17"},
    "launch": {"GLIBC": "2.17"},
    "cuda": {"GLIBC": "2.34", "GLIBCXX": "3.4.29", "CXXABI": "1.3.13"},
}
SYSTEM_LIBRARIES = {
    "ld-linux-aarch64.so.1",
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "libstdc++.so.6",
}


def key(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def read(name: str) -> str:
    with zipfile.ZipFile(WHEEL) as archive:
        return archive.read(name).decode()


def readelf(library: bytes, option: str) -> str:
    with tempfile.NamedTemporaryFile() as file:
        file.write(library)
        file.flush()
        return subprocess.run(
            ["readelf", "-W", option, file.name],
            check=True,
            capture_output=True,
            text=True,
        ).stdout


class WheelTest(unittest.TestCase):
    def setUp(self):
        with zipfile.ZipFile(WHEEL) as archive:
            self.assertIsNone(archive.testzip())
            self.entries = archive.infolist()
            self.files = {e.filename: archive.read(e) for e in self.entries}
        self.libraries = {
            name: data
            for name, data in self.files.items()
            if name.endswith(".so")
        }

    def test_record_lists_every_file_with_its_hash(self):
        rows = list(csv.reader(io.StringIO(read(f"{INFO}/RECORD"))))
        self.assertEqual([row[0] for row in rows], list(self.files))
        for name, digest, size in rows[:-1]:
            data = self.files[name]
            sha256 = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
            self.assertEqual(digest, "sha256=" + sha256.decode().rstrip("="))
            self.assertEqual(int(size), len(data))
        self.assertEqual(rows[-1], [f"{INFO}/RECORD", "", ""])

    def test_nothing_depends_on_the_time_or_the_user(self):
        for entry in self.entries:
            self.assertEqual(entry.date_time, (1980, 1, 1, 0, 0, 0))
            self.assertEqual(entry.external_attr >> 16, 0o100644)
        code = [e for e in self.files if not e.startswith(INFO)]
        self.assertEqual(code, sorted(code))

    def test_every_source_file_and_the_type_marker_are_inside(self):
        # Each argument is .../python/<place>.
        places = {str(s).split("python/", 1)[1] for s in SOURCES}
        self.assertLessEqual({f"{NAME}/py.typed", *EXPECTED.places}, places)
        packed = {e for e in self.files if not e.startswith(INFO)}
        self.assertEqual(packed - set(self.libraries), places)

    def test_metadata(self):
        about = email.message_from_string(read(f"{INFO}/METADATA"))
        self.assertEqual(about["Name"], NAME)
        module = re.search(r'version = "(.*?)"', MODULE.read_text())
        self.assertEqual(about["Version"], module.group(1))
        package = read(f"{NAME}/__init__.py")
        self.assertIn(f'__version__ = "{module.group(1)}"\n', package)
        self.assertEqual(about["Requires-Python"], ">=3.11")
        self.assertEqual(
            about.get_all("Requires-Dist"),
            ["jax>=0.8.1", "jaxlib>=0.8.1", "numpy>=2.0", *EXPECTED.requires],
        )
        self.assertEqual(
            tuple(about.get_all("Provides-Extra", ())), EXPECTED.extras
        )
        self.assertEqual(about["License-Expression"], "Apache-2.0")
        for name in about.get_all("License-File"):
            self.assertIn("Apache License", read(f"{INFO}/licenses/{name}"))
        page = about.get_payload()
        self.assertTrue(page.startswith(f"# {NAME}\n"))
        self.assertNotRegex(page, r"\]\((?!https://)")

    def test_entry_points(self):
        self.assertEqual(
            read(f"{INFO}/entry_points.txt"), EXPECTED.entry_points
        )

    def test_tag_is_that_of_the_file_name(self):
        text = read(f"{INFO}/WHEEL")
        for platform in PLATFORM.split("."):
            self.assertIn(f"Tag: py3-none-{platform}\n", text)
        is_cpu = "xla_ffi_kit/_lib/xla_ffi_kit_cuda.so" not in self.libraries
        self.assertEqual("manylinux2014_" in PLATFORM, is_cpu)

    def test_libraries_need_no_newer_system_than_promised(self):
        self.assertIn(f"{NAME}/_lib/{NAME}_cpu.so", self.libraries)
        for name, library in self.libraries.items():
            versions = readelf(library, "--version-info")
            promised = PROMISED[name.rpartition("_")[2].removesuffix(".so")]
            kinds = set(re.findall(r"Name: ([A-Z]+)_[0-9.]+", versions))
            self.assertLessEqual(kinds - {"GCC"}, set(promised), name)
            for kind, most in promised.items():
                needed = re.findall(rf"Name: {kind}_([0-9.]+)", versions)
                self.assertTrue(needed, (name, kind))
                self.assertLessEqual(max(map(key, needed)), key(most), name)

    def test_libraries_are_stripped_and_need_system_libraries_only(self):
        for name, library in self.libraries.items():
            dynamic = readelf(library, "--dynamic")
            needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
            self.assertIn("libc.so.6", needed, name)
            # As in the libraries that embedders get.
            self.assertIn("NODELETE", dynamic, name)
            self.assertLessEqual(set(needed), SYSTEM_LIBRARIES, name)
            self.assertNotIn(".symtab", readelf(library, "--sections"), name)

    def test_memory_is_copied_by_glibc(self):
        # The pinned compiler's run-time library has slow functions of the same
        # names, in one object with all others.
        for name, library in self.libraries.items():
            symbols = readelf(library, "--dyn-syms")
            for function in ("memcpy", "memmove", "memset"):
                self.assertRegex(symbols, rf"UND {function}@", name)

    def test_size(self):
        if "xla_ffi_kit/_lib/xla_ffi_kit_cuda.so" not in self.libraries:
            packed, unpacked = EXPECTED.megabytes
            self.assertLessEqual(WHEEL.stat().st_size, packed * 2**20)
            size = sum(map(len, self.files.values()))
            self.assertLessEqual(size, unpacked * 2**20)

    def test_a_library_that_needs_a_newer_system_is_refused(self):
        place = f"{NAME}/_lib/{NAME}_cpu.so"
        library = self.libraries[place]
        make_wheel.check_libraries({place: library}, "2.17")
        for name in ("GLIBC_2.18", "GLIBCXX_3.4.20"):
            newer = {place: library + f"\0{name}\0".encode()}
            with self.assertRaisesRegex(
                SystemExit,
                rf"^{place} needs {name}, but manylinux_2_17 promises less: "
                "build it with the compiler of //third_party/cc, or raise ",
            ):
                make_wheel.check_libraries(newer, "2.17")

    def test_the_page_has_no_links_into_the_repository(self):
        page = (
            "[a\nfile](b/c.md#d), [there](https://host/a), [here](#a)\n\n"
            "![picture](a.svg)\n```py\nx[0](y)\n```\n[b](c)\n"
        )
        self.assertEqual(
            make_wheel.standalone(page),
            "a\nfile, [there](https://host/a), [here](#a)\n\n"
            "\n```py\nx[0](y)\n```\nb\n",
        )
