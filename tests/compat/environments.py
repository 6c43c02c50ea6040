"""Virtual environments with one of the JAX releases the kit promises.

Every release gets one in the user's cache, filled once from its hashed lock
file beside this file; on top of it comes a fresh one with nothing but the two
wheels. JAX 0.12 needs Python 3.12 or newer; where there is none, tools/offline
unpacks one into the cache, if it can.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence

# Not resolved: in Bazel's runfiles the neighbours of this link count.
HERE = pathlib.Path(os.path.abspath(__file__)).parent
ROOT = HERE.parents[1]
CACHE = (
    pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    / "xla_ffi_kit"
)

# JAX version -> the Pythons that its wheels are for.
VERSIONS = {
    "0.8.1": ("3.11", "3.12", "3.13", "3.14"),
    "0.9.2": ("3.11", "3.12", "3.13", "3.14"),
    "0.10.2": ("3.11", "3.12", "3.13", "3.14"),
    "0.12.0.1": ("3.12", "3.13", "3.14"),
}


def wheels() -> list[pathlib.Path]:
    """The kit's and, for what needs it, accelerate's, as Bazel built them."""
    found = [
        file.resolve()
        for folder in ("python", "accelerate")
        for file in (ROOT / folder).glob("*.whl")
    ]
    assert found, "no wheel is among the data of this program"
    return found


def clean_environ() -> dict[str, str]:
    """Without Bazel's PYTHONPATH, whose packages pip and Python would find."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}


def runs(python: str) -> bool:
    """Whether an interpreter starts and can make virtual environments."""
    command = [python, "-c", "import venv"]
    return subprocess.run(command, capture_output=True).returncode == 0


def find_python(wanted: tuple[str, ...]) -> str:
    """An interpreter of one of the versions `wanted`."""
    if ".".join(map(str, sys.version_info[:2])) in wanted:
        return sys.executable
    for version in wanted:
        found = shutil.which(f"python{version}")
        # pyenv puts names on the path of Pythons that are not installed.
        if found and runs(found):
            return found
    script = ROOT / "tools/offline/install_python314.sh"
    out = subprocess.run(
        ["bash", script, CACHE / "python3.14"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return out.stdout.strip().splitlines()[-1]


def environment(version: str) -> pathlib.Path:
    """The Python of a virtual environment with that JAX; made if need be."""
    lock = HERE / f"requirements_{version}.txt"
    return filled(lock, find_python(VERSIONS[version]), f"jax-{version}")


def filled(lock: pathlib.Path, python: str, name: str) -> pathlib.Path:
    """The Python of a virtual environment with a lock's packages.

    Args:
      lock: a requirements file with hashes, of all packages.
      python: that makes the environment, if there is none yet.
      name: how the environment's folder begins.
    """
    content = lock.read_bytes() + os.path.realpath(python).encode()
    name = f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
    folder = CACHE / "compat" / name
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        print(f"installing {lock.name} into {folder}, once", flush=True)
        env = clean_environ()
        subprocess.run(
            [python, "-m", "venv", "--without-pip", folder], env=env, check=True
        )
        pip = [sys.executable, "-m", "pip", "--python", folder / "bin/python"]
        options = ["--require-hashes", "--only-binary=:all:", "--no-deps"]
        subprocess.run(
            [*pip, "install", "--quiet", *options, "-r", lock],
            env=env,
            check=True,
        )
        (folder / ".complete").touch()
    return folder / "bin/python"


def install(
    wheels: Sequence[pathlib.Path], jax: pathlib.Path, folder: str
) -> pathlib.Path:
    """The Python of a new environment with wheels, on top of JAX's own.

    Args:
      wheels: the kit's among them.
      jax: the Python of the environment with JAX.
      folder: where to make it.
    """
    env = clean_environ()
    venv = [jax, "-m", "venv", "--without-pip", folder]
    subprocess.run(venv, env=env, check=True)
    python = pathlib.Path(folder, "bin/python")
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = {
        of: subprocess.run(
            [of, "-c", where],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.strip()
        for of in (jax, python)
    }
    (pathlib.Path(packages[python]) / "jax.pth").write_text(packages[jax])
    pip = [sys.executable, "-m", "pip", "--python", python]
    options = ["--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "install", *options, *wheels], env=env, check=True)
    # The wheels' requirements. Other packages may lack one: tfp-nightly stands
    # for tensorflow-probability.
    lacks = subprocess.run(
        [*pip, "check"], env=env, stdout=subprocess.PIPE, text=True, check=False
    ).stdout.splitlines()
    names = tuple(w.name.split("-")[0].replace("_", "-") for w in wheels)
    if lacking := [line for line in lacks if line.startswith(names)]:
        sys.exit("\n".join(lacking))
    found = "import xla_ffi_kit; print(xla_ffi_kit.__file__)"
    used = subprocess.run(
        [python, "-c", found],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    if not used.startswith(packages[python]):
        sys.exit(f"the tests would use {used}, which is not the wheel's")
    return python
