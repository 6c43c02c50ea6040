"""Installs the wheels into fresh environments and uses them there.

The environment finds JAX where this test does, and the kit nowhere else.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

WHEEL, ACCELERATE = (pathlib.Path(file).resolve() for file in sys.argv[1:])
PROGRAM = pathlib.Path(__file__).with_name("installed.py")
PLATFORMS = os.environ["PLATFORMS_OF_THE_WHEEL"].split()


def run(*command: str | pathlib.Path, **environment: str) -> str:
    """The output of a command that has to succeed."""
    # Without Bazel's PYTHONPATH and PYTHONSAFEPATH.
    own = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        command, capture_output=True, text=True, env=own | environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Installed:
    """A fresh environment with some of the wheels."""

    WHEELS: tuple[pathlib.Path, ...]

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        run(sys.executable, "-m", "venv", "--without-pip", cls.folder)
        cls.python = pathlib.Path(cls.folder, "bin/python")
        cls.pip = [sys.executable, "-m", "pip", "--python", cls.python]
        run(*cls.pip, "install", "--no-index", "--no-deps", *cls.WHEELS)
        jax = [path for path in sys.path if path.endswith("site-packages")]
        cls.path = os.pathsep.join(jax)

    @classmethod
    def tearDownClass(cls):
        names = [wheel.name.partition("-")[0] for wheel in cls.WHEELS]
        run(*cls.pip, "uninstall", "--yes", *names)
        left = list(pathlib.Path(cls.folder).rglob("*xla_ffi_*"))
        assert left == [], left

    def runs(self, *arguments: str) -> str:
        """What `installed.py` prints."""
        return run(self.python, PROGRAM, *arguments, PYTHONPATH=self.path)

    def test_requirements_are_there_in_a_version_that_will_do(self):
        checked = run(*self.pip, "check", PYTHONPATH=self.path)
        self.assertIn("No broken requirements found", checked)


class TheKitAlone(Installed, unittest.TestCase):
    WHEELS = (WHEEL,)

    def test_it_works(self):
        self.assertIn("all as expected", self.runs("kit", self.folder))

    def test_libraries_of_its_platforms(self):
        said = self.runs("platforms", self.folder, *PLATFORMS)
        self.assertIn("all as expected", said)

    def test_accelerate_is_not_there(self):
        done = subprocess.run(
            [self.python, "-c", "import xla_ffi_accelerate"],
            capture_output=True,
            text=True,
            env={"PYTHONPATH": self.path},
        )
        self.assertIn(
            "ModuleNotFoundError: No module named 'xla_ffi_accelerate'",
            done.stderr,
        )


@unittest.skipIf("cuda" in PLATFORMS, "run with the wheel without CUDA")
class Both(Installed, unittest.TestCase):
    WHEELS = (WHEEL, ACCELERATE)

    def test_they_work(self):
        said = self.runs("accelerate", self.folder)
        self.assertIn("all as expected", said)

    def test_a_kit_of_another_version_is_a_sentence(self):
        said = self.runs("other_version")
        self.assertRegex(
            said,
            r"^xla_ffi_accelerate [\d.]+ needs xla_ffi_kit [\d.]+, got "
            r"0\.0\.1: install both in one version\n",
        )
