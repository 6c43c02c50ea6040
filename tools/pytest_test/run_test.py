"""The main program of every pytest_test.

Where its path begins with "//", as in the root folder of a container on some
remote execution servers, and with cases that only --config=ci runs.
"""

import os
import subprocess
import sys

import __main__

CASE = """
import sys
import helper_beside_it


def test_it():
    assert not sys.path[0].startswith("//"), sys.path[0]
    assert helper_beside_it.__file__.count("//") == 0
"""

CASES = """
import pytest


def test_short():
    pass


@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.ci)])
def test_some(n):
    pass
"""


def run(folder, program, **environ):
    packages = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, program, "case_test.py"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": packages, **environ},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_main_program_below_two_slashes(tmp_path):
    (tmp_path / "case_test.py").write_text(CASE)
    (tmp_path / "helper_beside_it.py").touch()
    said = run(tmp_path, "/" + os.path.abspath(__main__.__file__))
    assert "1 passed" in said


def test_cases_of_ci(tmp_path):
    (tmp_path / "case_test.py").write_text(CASES)
    program = os.path.abspath(__main__.__file__)
    said = run(tmp_path, program)
    assert "3 passed" in said
    assert "warning" not in said
    said = run(tmp_path, program, XLA_FFI_KIT_WITHOUT_CI_CASES="1")
    assert "2 passed, 1 deselected" in said
