"""What is pinned is unpacked, and nothing when it is not that.

By fetch_wheel.py a part of a wheel, by install_package.py a package of a lock
file.
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

SCRIPT, INSTALL = (pathlib.Path(path).resolve() for path in sys.argv[1:])
WHEEL = "kit_probe-1.0-py3-none-any.whl"


def make_wheel(folder: pathlib.Path) -> str:
    """Writes a small wheel; returns its sha256."""
    path = folder / WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("kit_probe/include/a.h", "// a\n")
        archive.writestr("kit_probe/include/deep/b.h", "// b\n")
        archive.writestr("kit_probe/other.txt", "other\n")
        archive.writestr("kit_probe-1.0.data/purelib/kit_names/deep.py", "")
        tool = zipfile.ZipInfo("kit_probe/bin/tool")
        tool.external_attr = 0o100744 << 16
        archive.writestr(tool, "#!/bin/sh\n")
        info = "kit_probe-1.0.dist-info/"
        archive.writestr(
            info + "METADATA",
            "Metadata-Version: 2.1\nName: kit_probe\nVersion: 1.0\n",
        )
        archive.writestr(
            info + "WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(info + "RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


class FetchWheelTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.wheels = pathlib.Path(self.folder.name, "wheels")
        self.out = pathlib.Path(self.folder.name, "out")
        self.wheels.mkdir()
        self.out.mkdir()
        self.sha256 = make_wheel(self.wheels)

    def fetch(self, *options: str, sha256: str | None = None):
        """Runs the script in the output folder; the wheel is pip's index."""
        return self.run_script(
            SCRIPT,
            "--requirement=kit_probe==1.0",
            f"--sha256={sha256 or self.sha256}",
            "--python-version=3.11",
            "--platform=any",
            *options,
        )

    def install(self, line: str):
        """Runs install_package.py, whose lock has that line."""
        (self.out / "requirements.txt").write_text(line)
        return self.run_script(INSTALL)

    def run_script(self, *command: str):
        # Only this wheel, whatever pip is configured to on the machine.
        environment = {
            k: v for k, v in os.environ.items() if "PIP_" not in k
        } | {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_NO_INDEX": "1",
        }
        return subprocess.run(
            [sys.executable, "-B", *command],
            cwd=self.out,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def unpacked(self) -> list[str]:
        files = (path for path in self.out.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.out)) for path in files)

    def test_unpacks_below_the_prefix(self):
        result = self.fetch("--strip-prefix=kit_probe")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(
            self.unpacked(),
            ["bin/tool", "include/a.h", "include/deep/b.h", "other.txt"],
        )

    def test_programs_stay_programs(self):
        result = self.fetch("--strip-prefix=kit_probe")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(os.access(self.out / "bin/tool", os.X_OK))
        self.assertEqual(
            (self.out / "other.txt").stat().st_mode & 0o111, 0, "a text"
        )

    def test_unpacks_only_the_members(self):
        result = self.fetch("--strip-prefix=kit_probe", "--member=include/deep")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.unpacked(), ["include/deep/b.h"])

    def test_a_wheel_that_bazel_downloaded_is_unpacked_without_pip(self):
        downloaded = (self.wheels / WHEEL).rename(self.out / "wheel.whl")
        result = self.fetch(
            f"--wheel={downloaded}", "--strip-prefix=kit_probe/include/deep"
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.unpacked(), ["b.h", "wheel.whl"])

    def test_another_hash_stops_and_names_the_package(self):
        result = self.fetch(sha256="0" * 64)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("kit_probe==1.0", result.stderr)
        self.assertIn("pinned sha256 " + "0" * 64, result.stderr)
        self.assertEqual(self.unpacked(), [])

    def test_a_prefix_that_is_not_there_stops(self):
        result = self.fetch("--strip-prefix=nowhere")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("nothing below 'nowhere'", result.stderr)

    def test_a_package_of_a_lock_file(self):
        result = self.install(f"kit_probe==1.0 --hash=sha256:{self.sha256}\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        site = self.out / "site-packages"
        self.assertTrue(os.access(site / "kit_probe/bin/tool", os.X_OK))
        self.assertTrue((site / "kit_names/deep.py").exists())
        self.assertIn(
            "extend_path", (site / "kit_names/__init__.py").read_text()
        )
        self.assertFalse((site / "kit_probe/__init__.py").exists())
        self.assertFalse((site / "kit_probe-1.0.data").exists())

    def test_a_package_for_other_machines_is_empty(self):
        result = self.install(
            "kit_probe==1.0 ; sys_platform == 'win32' "
            f"--hash=sha256:{self.sha256}\n"
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.unpacked(), ["requirements.txt"])

    def test_a_package_of_another_hash(self):
        result = self.install(f"kit_probe==1.0 --hash=sha256:{'0' * 64}\n")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("kit_probe==1.0: the wheel has none of", result.stderr)
