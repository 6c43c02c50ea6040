"""The tests of public packages with and without the package.

    tools/bazel run //accelerate/programs:suites [-- --only mctx rax --all]
    tools/bazel run //accelerate/programs:suites -- --ci

suites.toml lists them. Each runs by pytest in a process of its own without
XLA_FFI_ACCELERATE, and in one with `exact`: no test that passes without may do
anything else with it. Where a test does, the plain run is repeated, and a test
whose plain runs differ is named as flaky. With --all the tests also run with
`all`, for information: its results are close, and a test may ask for bits.

The packages are installed from the lock, by hash, into an environment of their
own, once. The exit status is the number of tests that differ.

With pip alone: install suites_lock.txt with --no-deps and both wheels, then
`PYTHONPATH=tests/compat:benchmarks python accelerate/programs/suites.py
--python PYTHON`.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from typing import Any

import packages
import suite_runs

from bench.page import table as markdown

HERE = pathlib.Path(__file__).absolute().parent


def describe(found: suite_runs.Comparison) -> str:
    """Which tests differ, or are flaky, and what pytest said of them."""
    name = found.suite.name
    lines = [f"{name}: flaky: {test}" for test in found.flaky()]
    for mode in found.modes():
        different = found.differ(mode)
        outcomes = found.runs[mode].outcomes
        lines += [
            f"{name}: {outcomes.get(test, 'no outcome')}"
            f" with {suite_runs.VARIABLE}={mode}: {test}"
            for test in different
        ]
        lines += [_end(found.runs[mode].said)] if different else []
    off = found.runs["off"]
    if not off.passed():
        lines.append(f"{name}: no test passes without it\n{_end(off.said)}")
    return "\n".join(lines)


def _end(said: str) -> str:
    """What counts of an output: from a crash on, or its last lines."""
    crash = said.rfind("Fatal Python error")
    return said[-8000:] if crash < 0 else said[crash:][:8000]


def table(found: Sequence[suite_runs.Comparison]) -> str:
    """A row for each suite, as Markdown."""
    close = any("all" in one.runs for one in found)
    heads = ["package", "version", "tests", "passed off", "passed exact"]
    heads += ["differ", "flaky", "lowered to the package", "s off", "s exact"]
    heads += ["passed all", "differ all"] if close else []
    rows: list[list[Any]] = [heads]
    for one in found:
        off, exact = one.runs["off"], one.runs["exact"]
        row = [one.suite.name, one.suite.version]
        row += [len(off.outcomes), off.passed(), exact.passed()]
        row += [len(one.differ("exact")), len(one.flaky())]
        row += [f"{exact.lowered} times, by {exact.lowering_tests} tests"]
        row += [round(off.seconds), round(exact.seconds)]
        if close:
            row += [one.runs["all"].passed(), len(one.differ("all"))]
        rows.append(row)
    return markdown(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what the command line asks for; the number of tests that differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--python", help="that has the packages and the wheels")
    parser.add_argument("--all", action="store_true", help="all names too")
    parser.add_argument("--ci", action="store_true", help="three short ones")
    options = parser.parse_args(arguments)
    listed = tomllib.loads((HERE / "suites.toml").read_text())
    suites = listed["ci" if options.ci else "suite"]
    chosen = options.only or suites
    if unknown := set(chosen) - set(suites):
        parser.error(f"--only: {unknown} is none of {', '.join(suites)}")
    needs = listed["ci_needs"] if options.ci else []
    modes = ["exact", "all"] if options.all else ["exact"]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        python = options.python or packages.suites_installed(folder, needs)
        for name in chosen:
            of = suites[name]
            suite = suite_runs.Suite(
                name,
                packages.version(name),
                packages.folder_of(name, of, python),
                of["files"],
                of.get("select", ""),
            )
            found.append(suite_runs.compare(python, suite, modes))
            if said := describe(found[-1]):
                print(said)
            print(table(found[-1:]).splitlines()[-1], flush=True)
    print(f"\n{table(found)}")
    failed = sum(wrong(one) for one in found)
    if not sum(one.runs["exact"].lowered for one in found):
        print("\nnothing was lowered to the package: is it installed?")
        failed += 1
    passed = sum(one.runs["exact"].passed() for one in found)
    print(f"\n{passed} passed, {failed} failed")
    return min(failed, 125)  # the statuses that a shell has for others


def wrong(found: suite_runs.Comparison) -> int:
    """The tests that differ by exact names; 1 if there was none to compare."""
    return len(found.differ("exact")) if found.runs["off"].passed() else 1


if __name__ == "__main__":
    sys.exit(main())
