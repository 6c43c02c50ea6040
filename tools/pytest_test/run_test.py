"""The main program of every pytest_test, where its path begins with "//".

So it is where actions run in the root folder of a container, as on some remote
execution servers.
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


def test_main_program_below_two_slashes(tmp_path):
    (tmp_path / "case_test.py").write_text(CASE)
    (tmp_path / "helper_beside_it.py").touch()
    packages = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [
            sys.executable,
            "/" + os.path.abspath(__main__.__file__),
            "case_test.py",
        ],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": packages},
        capture_output=True,
        text=True,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
