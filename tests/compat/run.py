"""Runs the tests of both packages, and of the pages, on every promised JAX.

    tools/bazel run //tests/compat
    tools/bazel run //tests/compat -- --versions 0.8.1 0.12.0.1 --tests rms_norm
    tools/bazel run //tests/compat -- --quick

The environments are those of environments.py. Each test file runs in a process
of its own, as under Bazel: what it sets (flags, devices, 64 bits) stays in it.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from xml.etree import ElementTree

from environments import ROOT, VERSIONS, environment, install, wheels

TESTS = {
    file.stem: file
    for folder in (
        "tests/jax",
        "examples/tutorial",
        "accelerate/tests",
        "tests/docs",
    )
    for file in sorted((ROOT / folder).glob("*_test.py"))
}

# What --quick runs: the oldest release and the newest, the tests of what JAX
# changes between releases. Test file -> pytest's -k within it.
QUICK_VERSIONS = ("0.8.1", "0.12.0.1")
QUICK_TESTS = {
    "accelerate_switch_test": "",  # JAX's tables of lowerings
    "ch5_devices_test": "",  # sharding by JAX's own functions
    "check_op_test": "test_operation[rms_norm_weight]",  # transformations
    "cuda_blocks_test": "test_blocks",  # lowering kernels from strings
    "cuda_registration_test": "",  # the other platform's names and order
    "effects_test": "donated or side_effect_is",
    "export_test": "",
    "from_jax_extend_ffi_test": "gone or still or calls",
    "library_test": "",  # registration
    "sort_test": "many_keys or functions_of_numpy",  # through accelerate
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


def run_file(python: pathlib.Path, name: str, within: str) -> Count:
    """Runs one test file; prints its counts, and its output if one failed."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        options = ["-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        environ = os.environ | {
            "PYTHONDONTWRITEBYTECODE": "1",
            # The tests' own helpers; the packages come from the wheels.
            "PYTHONPATH": os.pathsep.join(
                str(ROOT / folder)
                for folder in (
                    "tests/jax",
                    "tests/gpu",
                    "accelerate/tests",
                    "benchmarks",
                )
            ),
        }
        done = subprocess.run(
            [python, "-m", "pytest", *options, "-k", within, TESTS[name]],
            env=environ,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        counts = (
            count(ElementTree.parse(report)) if report.exists() else Count()
        )
    # Killed, for example; or there is no test. Code 5: all of it is skipped.
    if done.returncode not in (0, 5) or counts == Count():
        counts.failed = max(counts.failed, 1)
    if counts.failed:
        print(done.stdout)
    print(f"{name}: {counts}, {time.monotonic() - start:.0f} s", flush=True)
    return counts


def run_tests(python: pathlib.Path, tests: dict[str, str]) -> dict[str, Count]:
    """Runs test files, as many at once as there are cores; counts by file."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {
            name: pool.submit(run_file, python, name, within)
            for name, within in tests.items()
        }
        return {name: run.result() for name, run in runs.items()}


def count(report: ElementTree.ElementTree) -> Count:
    """The cases of a JUnit report."""
    counts = Count()
    for case in report.iter("testcase"):
        outcomes = {child.tag for child in case}
        if outcomes & {"failure", "error"}:
            counts.failed += 1
        elif "skipped" in outcomes:
            counts.skipped += 1
        else:
            counts.passed += 1
    return counts


def require(counts: dict[str, Count]) -> None:
    """Counts a failure for each of the test files in which nothing passed."""
    for name, entry in counts.items():
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
        "--tests", default="", help="only test files whose name has this in it"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="the oldest release and the newest, and what differs between them",
    )
    options = parser.parse_args()
    tests = {name: "" for name in TESTS if options.tests in name}
    if options.quick:
        options.versions, tests = QUICK_VERSIONS, QUICK_TESTS
    if not tests:
        parser.error(f"--tests {options.tests}: no file of {', '.join(TESTS)}")
    print("wheels:", *(wheel.name for wheel in wheels()), flush=True)
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
            # Some tests compile as another user, who has to read the headers.
            os.chmod(folder, 0o755)
            python = install(wheels(), jax, folder)
            results[version] = run_tests(python, tests)
        if options.quick:
            require(results[version])
        print(f"{time.monotonic() - start:.0f} s", flush=True)
    print(f"\n{table(results)}")
    counts = [c for result in results.values() for c in result.values()]
    failed = sum(c.failed for c in counts)
    print(f"\n{sum(c.passed for c in counts)} passed, {failed} failed")
    return 1 if failed or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
