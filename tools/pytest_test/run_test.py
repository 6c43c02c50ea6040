"""The main program of every pytest_test.

Where its path begins with "//", as in the root folder of a container on some
remote execution servers, and where the packages are on sys.path without
PYTHONPATH, as with rules_python 2.
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


def run(folder, program):
    packages = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, program, "case_test.py"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": packages},
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


CHILD = """
import subprocess
import sys


def test_packages_of_a_child():
    subprocess.run([sys.executable, "-c", "import only_here"], check=True)
"""
# What a bootstrap that extends sys.path by itself does.
BOOTSTRAP = """
import runpy
import sys

sys.path[1:1] = {packages}
sys.argv = [{program}, "case_test.py"]
runpy.run_path({program}, run_name="__main__")
"""


def test_children_import_what_tests_do(tmp_path):
    (tmp_path / "case_test.py").write_text(CHILD)
    site = tmp_path / "site"
    site.mkdir()
    (site / "only_here.py").touch()
    (tmp_path / "bootstrap.py").write_text(
        BOOTSTRAP.format(
            packages=[str(site), *filter(None, sys.path)],
            program=repr(os.path.abspath(__main__.__file__)),
        )
    )
    done = subprocess.run(
        [sys.executable, "-I", "bootstrap.py"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
