"""Installs the wheel into a fresh environment and uses it there.

The environment finds JAX where this test does, and the kit nowhere else.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

WHEEL = pathlib.Path(sys.argv[1]).resolve()
PROGRAM = pathlib.Path(__file__).with_name("installed.py")


def run(*command: str | pathlib.Path, **environment: str) -> str:
    """The output of a command that has to succeed."""
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class InstallTest(unittest.TestCase):
    def test_installed_wheel_works(self):
        with tempfile.TemporaryDirectory() as folder:
            run(sys.executable, "-m", "venv", "--without-pip", folder)
            python = pathlib.Path(folder, "bin/python")
            pip = [sys.executable, "-m", "pip", "--python", python]
            run(*pip, "install", "--no-index", "--no-deps", WHEEL)
            jax = [path for path in sys.path if path.endswith("site-packages")]
            path = os.pathsep.join(jax)
            # Every requirement is there, in a version that will do.
            checked = run(*pip, "check", PYTHONPATH=path)
            self.assertIn("No broken requirements found", checked)
            said = run(python, PROGRAM, folder, PYTHONPATH=path)
            self.assertIn("all as expected", said)
            run(*pip, "uninstall", "--yes", "xla_ffi_kit")
            left = list(pathlib.Path(folder).rglob("*xla_ffi_kit*"))
            self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
