"""A benchmark on another JAX release, in an environment of tests/compat.

There are the wheels, as users have them: the libraries are those that ship.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import environments

# Not resolved: in Bazel's runfiles the neighbours of this link count.
_HERE = pathlib.Path(os.path.abspath(__file__)).parents[1]


def again(version: str, program: str, arguments: Sequence[str]) -> int:
    """Runs `program` with that JAX; its exit status.

    Args:
      version: a JAX release, one of `environments.VERSIONS`.
      program: the path of a Python file; what is beside it can be imported.
      arguments: its command line.
    """
    if version not in environments.VERSIONS:
        known = ", ".join(environments.VERSIONS)
        sys.exit(f"--jax: expected one of {known}, got {version}")
    *_, newest = environments.VERSIONS
    if "--publish" in arguments and version != newest:
        sys.exit(
            f"--publish --jax: expected {newest}, the newest, got {version}"
        )
    jax = environments.environment(version)
    paths = [str(pathlib.Path(os.path.abspath(program)).parent), str(_HERE)]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    with tempfile.TemporaryDirectory() as venv:
        python = environments.install(environments.wheels(), jax, venv)
        command = [python, program, *arguments]
        return subprocess.run(command, env=environ, check=False).returncode
