"""The program that makes the wheel: what it refuses, and that it repeats."""

import hashlib
import json
import os
import pathlib
import sys
import tempfile
import unittest
import zipfile

import make_wheel

with zipfile.ZipFile(sys.argv[1]) as archive:
    LIBRARY = archive.read("xla_ffi_kit/_lib/xla_ffi_kit_cpu.so")


def make(folder: pathlib.Path, library: bytes) -> bytes:
    """Makes a wheel of one library and one source file in `folder`."""
    (folder / "library.so").write_bytes(library)
    (folder / "module.py").write_text("ONE = 1\n")
    (folder / "README.md").write_text("# project\n")
    spec = {
        "classifiers": [],
        "entry_points": {},
        "description": "README.md",
        "extras": {},
        "files": {"p/b.so": "library.so", "p/a.py": "module.py"},
        "glibc": "2.17",
        "license": "Apache-2.0",
        "license_files": {"LICENSE": "README.md"},
        "name": "project",
        "requires": [],
        "requires_python": ">=3.11",
        "summary": "a project",
        "tag": "py3-none-manylinux_2_17_x86_64",
        "version": "1",
    }
    (folder / "spec.json").write_text(json.dumps(spec))
    before = os.getcwd()
    os.chdir(folder)
    try:
        make_wheel.main("spec.json", "out.whl")
    finally:
        os.chdir(before)
    return (folder / "out.whl").read_bytes()


class MakeWheelTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_same_bytes_in_another_folder_and_environment(self):
        wheels = []
        for name, umask, epoch in [("a", 0o022, "0"), ("b", 0o077, "9" * 9)]:
            folder = self.folder / name / ("x" * len(wheels)) / "work"
            folder.mkdir(parents=True)
            os.environ["SOURCE_DATE_EPOCH"] = epoch
            self.addCleanup(os.environ.pop, "SOURCE_DATE_EPOCH", None)
            old = os.umask(umask)
            self.addCleanup(os.umask, old)
            wheels.append(make(folder, LIBRARY))
            for file in folder.iterdir():
                os.utime(file, (10**9, 10**9))
            wheels.append(make(folder, LIBRARY))
        self.assertEqual(
            {hashlib.sha256(w).hexdigest() for w in wheels},
            {hashlib.sha256(wheels[0]).hexdigest()},
        )

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

    def test_a_library_that_needs_a_newer_system_is_refused(self):
        for name in ("GLIBC_2.18", "GLIBCXX_3.4.20"):
            newer = LIBRARY + f"\0{name}\0".encode()
            with self.assertRaisesRegex(
                SystemExit,
                rf"^p/b\.so needs {name}, but manylinux_2_17 promises less: "
                r"build it with the compiler of //third_party/cc, or raise ",
            ):
                make(self.folder, newer)
