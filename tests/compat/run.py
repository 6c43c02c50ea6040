"""Runs tests/jax and tests/docs on every JAX version the kit promises.

    tools/bazel run //tests/compat
    tools/bazel run //tests/compat -- --versions 0.8.1 0.12.0.1 --tests rms_norm
    tools/bazel run //tests/compat -- --quick

Every version gets a virtual environment in the user's cache, filled once from
its hashed lock file beside this file. On top of it comes a fresh environment
with nothing but the kit's wheel, the same for all versions. JAX 0.12 needs
Python 3.12 or newer; where there is none, Python 3.14 is unpacked into the
cache (Debian only).
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from xml.etree import ElementTree

# Not resolved: in Bazel's runfiles the neighbours of this link count.
HERE = pathlib.Path(os.path.abspath(__file__)).parent
ROOT = HERE.parents[1]
CACHE = (
    pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    / "xla_ffi_kit"
)

TESTS = (ROOT / "tests/jax", ROOT / "tests/docs")

# JAX version -> the Pythons that its wheels are for.
VERSIONS = {
    "0.8.1": ("3.11", "3.12", "3.13", "3.14"),
    "0.9.2": ("3.11", "3.12", "3.13", "3.14"),
    "0.10.2": ("3.11", "3.12", "3.13", "3.14"),
    "0.12.0.1": ("3.12", "3.13", "3.14"),
}

# What --quick runs: the oldest release and the newest, the tests of what JAX
# changes between releases. Test file -> pytest's -k within it.
QUICK_VERSIONS = ("0.8.1", "0.12.0.1")
QUICK_TESTS = {
    "accelerate_switch_test": "",  # JAX's tables of lowerings
    "check_op_test": "test_operation[rms_norm_weight]",  # transformations
    "cuda_registration_test": "",  # the other platform's names and order
    "effects_test": "donated or side_effect_is",
    "export_test": "",
    "library_test": "",  # registration
    "sort_test": "one_key_with_payload or many_keys",  # through accelerate
}


@dataclasses.dataclass
class Count:
    """Test cases of one file on one version."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __str__(self) -> str:
        said = [f"{self.passed} passed"] if self.passed else []
        said += [f"{self.failed} FAILED"] if self.failed else []
        said += [f"{self.skipped} skipped"] if self.skipped else []
        return ", ".join(said) or "nothing"


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
    script = HERE / "install_python314.sh"
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
    python = find_python(VERSIONS[version])
    content = lock.read_bytes() + os.path.realpath(python).encode()
    name = f"jax-{version}-{hashlib.sha256(content).hexdigest()[:12]}"
    folder = CACHE / "compat" / name
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        print(f"installing jax {version} into {folder}, once", flush=True)
        # Bazel's PYTHONPATH would have pip find packages there, and leave out.
        env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
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
    wheel: pathlib.Path, jax: pathlib.Path, folder: str
) -> pathlib.Path:
    """The Python of a new environment with the wheel, on top of JAX's own.

    Args:
      wheel: the kit's.
      jax: the Python of the environment with JAX.
      folder: where to make it.
    """
    venv = [jax, "-m", "venv", "--without-pip", folder]
    subprocess.run(venv, check=True)
    python = pathlib.Path(folder, "bin/python")
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = {
        of: subprocess.run(
            [of, "-c", where], stdout=subprocess.PIPE, text=True, check=True
        ).stdout.strip()
        for of in (jax, python)
    }
    (pathlib.Path(packages[python]) / "jax.pth").write_text(packages[jax])
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", python]
    options = ["--no-index", "--no-deps"]
    subprocess.run([*pip, "install", *options, wheel], check=True)
    subprocess.run([*pip, "check"], check=True)  # the wheel's requirements
    found = "import xla_ffi_kit; print(xla_ffi_kit.__file__)"
    used = subprocess.run(
        [python, "-c", found], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    if not used.startswith(packages[python]):
        sys.exit(f"the tests would use {used}, which is not the wheel's")
    return python


def run_tests(python: pathlib.Path, select: str) -> dict[str, Count]:
    """Runs the suite; counts by test file."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        options = ["-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        if select:
            options += ["-k", select]
        environ = os.environ | {
            "PYTHONDONTWRITEBYTECODE": "1",
            # The tests' own helpers; the package comes from the wheel.
            "PYTHONPATH": str(ROOT / "tests/jax"),
        }
        subprocess.run(
            [python, "-m", "pytest", *options, *TESTS],
            env=environ,
            check=False,
        )
        if not report.exists():
            return {"no report": Count(failed=1)}
        return count(ElementTree.parse(report))


def count(report: ElementTree.ElementTree) -> dict[str, Count]:
    """The cases of a JUnit report by file."""
    counts: dict[str, Count] = {}
    for case in report.iter("testcase"):
        name = (case.get("classname") or case.get("name") or "").split(".")[-1]
        entry = counts.setdefault(name, Count())
        outcomes = {child.tag for child in case}
        if outcomes & {"failure", "error"}:
            entry.failed += 1
        elif "skipped" in outcomes:
            entry.skipped += 1
        else:
            entry.passed += 1
    return counts


def quick_selection() -> str:
    """pytest's -k for QUICK_TESTS."""
    return " or ".join(
        f"({file} and ({within}))" if within else file
        for file, within in QUICK_TESTS.items()
    )


def require(files: Iterable[str], counts: dict[str, Count]) -> None:
    """Counts a failure for each of the test files in which nothing passed."""
    for name in files:
        entry = counts.setdefault(name, Count())
        if not entry.passed and not entry.failed:
            print(f"{name}: nothing passed; was it renamed?", flush=True)
            entry.failed = 1


def table(results: dict[str, dict[str, Count]]) -> str:
    """The results, a row per test file, a column per version."""
    files = sorted({name for counts in results.values() for name in counts})
    rows = [["", *(f"jax {version}" for version in results)]]
    for name in files:
        cells = [str(c.get(name, Count())) for c in results.values()]
        rows.append([name, *cells])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))
        for row in rows
    )


def main() -> int:
    """Runs what the command line asks for; 1 if a test failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--versions", nargs="+", choices=VERSIONS, default=list(VERSIONS)
    )
    parser.add_argument(
        "--tests", default="", help="pytest's -k: only tests that match"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="the oldest release and the newest, and what differs between them",
    )
    options = parser.parse_args()
    if options.quick:
        options.versions, options.tests = QUICK_VERSIONS, quick_selection()
    (wheel,) = (ROOT / "python").glob("*.whl")
    print(f"wheel: {wheel.name}", flush=True)
    results = {}
    for version in options.versions:
        try:
            jax = environment(version)
        except subprocess.CalledProcessError as error:
            print(f"jax {version} cannot be installed: {error}", flush=True)
            results[version] = {"installation": Count(failed=1)}
            continue
        start = time.monotonic()
        print(f"\n=== jax {version}, {jax}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            python = install(wheel.resolve(), jax, folder)
            results[version] = run_tests(python, options.tests)
        if options.quick:
            require(QUICK_TESTS, results[version])
        print(f"{time.monotonic() - start:.0f} s", flush=True)
    print(f"\n{table(results)}")
    counts = [c for result in results.values() for c in result.values()]
    failed = sum(c.failed for c in counts)
    print(f"\n{sum(c.passed for c in counts)} passed, {failed} failed")
    return 1 if failed or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
