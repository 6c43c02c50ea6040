"""Installs the wheel into a fresh environment and uses it there.

The environment finds JAX where this test does, and the kit nowhere else.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

WHEEL = pathlib.Path(sys.argv[1]).resolve()
EXAMPLES = [pathlib.Path(file).resolve() for file in sys.argv[2:]]
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


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        run(sys.executable, "-m", "venv", "--without-pip", cls.folder)
        cls.python = pathlib.Path(cls.folder, "bin/python")
        cls.pip = [sys.executable, "-m", "pip", "--python", cls.python]
        run(*cls.pip, "install", "--no-index", "--no-deps", WHEEL)
        jax = [path for path in sys.path if path.endswith("site-packages")]
        cls.path = os.pathsep.join(jax)

    @classmethod
    def tearDownClass(cls):
        run(*cls.pip, "uninstall", "--yes", "xla_ffi_kit")
        left = list(pathlib.Path(cls.folder).rglob("*xla_ffi_kit*"))
        assert left == [], left

    def test_requirements_are_there_in_a_version_that_will_do(self):
        checked = run(*self.pip, "check", PYTHONPATH=self.path)
        self.assertIn("No broken requirements found", checked)

    def test_installed_wheel_works(self):
        said = run(self.python, PROGRAM, self.folder, PYTHONPATH=self.path)
        self.assertIn("all as expected", said)

    def test_libraries_of_its_platforms(self):
        said = run(
            *(self.python, PROGRAM.with_name("installed_platforms.py")),
            *(self.folder, *PLATFORMS),
            PYTHONPATH=self.path,
        )
        self.assertIn("all as expected", said)

    @unittest.skipIf("cuda" in PLATFORMS, "run with the wheel without CUDA")
    def test_accelerated_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            for file in EXAMPLES:  # by themselves, as a user has them
                shutil.copy(file, folder)
            compare = pathlib.Path(folder, "compare.py")
            command = [self.python, compare, "--short"]
            names = ["particle filter", "mixture of experts", "camera poses"]
            said = run(*command, *names, PYTHONPATH=self.path)
        self.assertEqual(said.count("same results"), 2, said)
        self.assertEqual(said.count("results within"), 1, said)
