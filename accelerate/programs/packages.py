"""What the suites are made of: the lock's packages, and their sdists' tests."""

from __future__ import annotations

import functools
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Collection
from typing import Any

import environments

HERE = pathlib.Path(__file__).absolute().parent
LOCK = HERE / "suites_lock.txt"
PYTHONS = ("3.11", "3.12", "3.13")


@functools.cache
def entries() -> dict[str, str]:
    """The lock's requirements with their hashes, by the package's name."""
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", LOCK.read_text()):
        if name := re.match(r"[a-z0-9-]+(?===)", entry):
            # One for each Python, with a marker, is a package's whole entry.
            found[name[0]] = found.get(name[0], "") + entry.rstrip() + "\n"
    return found


def version(name: str) -> str:
    """Of a package in the lock."""
    return re.split(r"==| ", entries()[name])[1]


def installed(lock: pathlib.Path, name: str, folder: str) -> str:
    """The Python of an environment with a lock's packages and both wheels.

    Args:
      lock: a requirements file with hashes.
      name: how the folder in the cache begins.
      folder: where to make the environment.
    """
    found = environments.find_python(PYTHONS)
    base = environments.filled(lock, found, name)
    return str(environments.install(environments.wheels(), base, folder))


def suites_installed(folder: str, names: Collection[str]) -> str:
    """The same with the suites' packages: those named, or all of them."""
    with tempfile.TemporaryDirectory() as other:
        lock = LOCK
        if names:
            lock = pathlib.Path(other, LOCK.name)
            lock.write_text("".join(entries()[name] for name in names))
        return installed(lock, "suites", folder)


def folder_of(name: str, settings: dict[str, Any], python: str) -> pathlib.Path:
    """The folder that a suite's files are in.

    Args:
      name: of the package.
      settings: `sdist` says that the tests are in the sdist alone.
      python: that has the packages.
    """
    if settings.get("sdist"):
        return _sdist(name, python)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = _said([python, "-c", where])
    # An environment with the wheels has the packages by this file.
    link = pathlib.Path(packages, "jax.pth")
    return pathlib.Path(link.read_text() if link.exists() else packages)


def _sdist(name: str, python: str) -> pathlib.Path:
    """The sdist of a package, unpacked into the cache, once."""
    cache = environments.CACHE / "suites" / f"{name}-{version(name)}"
    if not cache.exists():
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache.parent) as folder:
            lock = pathlib.Path(folder, "lock.txt")
            lock.write_text(entries()[name])
            # pip asks the sdist for its name; what builds it is in the lock.
            pip = [sys.executable, "-m", "pip", "--python", python, "download"]
            pip += ["--quiet", "--no-deps", "--no-binary=:all:"]
            pip += ["--no-build-isolation", "--require-hashes"]
            subprocess.run(
                [*pip, "-d", folder, "-r", lock],
                env=environments.clean_environ(),
                check=True,
            )
            (archive,) = pathlib.Path(folder).glob("*.tar.gz")
            with tarfile.open(archive) as tar:
                tar.extractall(folder, filter="data")
            (unpacked,) = (
                p for p in pathlib.Path(folder).iterdir() if p.is_dir()
            )
            unpacked.rename(cache)
    return cache


def _said(command: list[str]) -> str:
    return subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
