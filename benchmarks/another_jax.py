"""The benchmark on another JAX release, in an environment of tests/compat.

There are the wheels, as users have them: the libraries are those that ship.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import tempfile
from collections.abc import Sequence

import environments


def again(version: str, program: str, arguments: Sequence[str]) -> int:
    """Runs `program` with that JAX; its exit status.

    Args:
      version: a JAX release, one of `environments.VERSIONS`.
      program: the path of a Python file; what is beside it can be imported.
      arguments: its command line.
    """
    jax = environments.environment(version)
    # Not resolved: in Bazel's runfiles the neighbours of this link count.
    folder = pathlib.Path(os.path.abspath(program)).parent
    environ = os.environ | {"PYTHONPATH": f"{folder}"}
    with tempfile.TemporaryDirectory() as venv:
        python = environments.install(environments.wheels(), jax, venv)
        command = [python, program, *arguments]
        return subprocess.run(command, env=environ, check=False).returncode
