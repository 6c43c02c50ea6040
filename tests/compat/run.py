"""Runs tests/jax and tests/docs on every JAX version the kit promises.

    tools/bazel run //tests/compat
    tools/bazel run //tests/compat -- --versions 0.8.1 0.12.0.1 --tests rms_norm
    tools/bazel run //tests/compat -- --quick

The environments are those of environments.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from xml.etree import ElementTree

from environments import ROOT, VERSIONS, environment, install, wheel

TESTS = (ROOT / "tests/jax", ROOT / "tests/docs")

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
    print(f"wheel: {wheel().name}", flush=True)
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
            python = install(wheel(), jax, folder)
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
