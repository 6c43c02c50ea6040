"""Runs of tests without and with the variable, and what differs."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

HERE = pathlib.Path(__file__).absolute().parent
VARIABLE = "XLA_FFI_ACCELERATE"
# The runs without the variable.
PLAIN = ("off", "again")
# A process is ended after so many seconds; what did not run has no outcome.
LIMIT = 900


@dataclasses.dataclass(frozen=True)
class Suite:
    """Tests of a package.

    Attributes:
      name: of the package.
      version: of the package.
      folder: that the tests' paths start in, and where they run.
      files: patterns of test files in the folder.
      select: pytest's -k.
    """

    name: str
    version: str
    folder: pathlib.Path
    files: Sequence[str]
    select: str = ""


@dataclasses.dataclass
class Run:
    """What became of the tests in one process."""

    outcomes: dict[str, str]
    lowered: int
    lowering_tests: int
    seconds: float
    said: str

    def passed(self) -> int:
        return sum(one == "passed" for one in self.outcomes.values())


@dataclasses.dataclass
class Comparison:
    """The runs of a suite: "off", "exact", and perhaps "again" and "all"."""

    suite: Suite
    runs: dict[str, Run]

    def modes(self) -> list[str]:
        """What the variable was, in the runs with it."""
        return [mode for mode in self.runs if mode not in PLAIN]

    def flaky(self) -> list[str]:
        """Tests of which two runs without the variable differ."""
        again = self.runs.get("again")
        return _differ(self.runs["off"], again) if again else []

    def differ(self, mode: str) -> list[str]:
        """Tests that pass without the variable, and do not with it."""
        off, on = self.runs["off"], self.runs[mode]
        flaky = set(self.flaky())
        return [
            test
            for test in _differ(off, on)
            if off.outcomes.get(test) == "passed" and test not in flaky
        ]


def _differ(a: Run, b: Run) -> list[str]:
    tests = a.outcomes.keys() | b.outcomes.keys()
    return sorted(t for t in tests if a.outcomes.get(t) != b.outcomes.get(t))


def run(python: str, suite: Suite, mode: str) -> Run:
    """Runs a suite's tests once.

    Args:
      python: that has the packages.
      suite: which tests.
      mode: what XLA_FFI_ACCELERATE is; none for "off" and "again".
    """
    files = sorted({f for p in suite.files for f in suite.folder.glob(p)})
    if not files:
        raise SystemExit(f"{suite.name}: no file is {' or '.join(suite.files)}")
    env = dict(os.environ)
    env.pop(VARIABLE, None)
    if mode not in PLAIN:
        env[VARIABLE] = mode
    paths = [str(HERE / "suite_plugin"), env.get("PYTHONPATH", "")]
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "outcomes")
        settings = pathlib.Path(folder, "pytest.ini")
        settings.write_text("[pytest]\n")  # not the package's own
        env |= {
            "KERAS_BACKEND": "jax",
            "MPLBACKEND": "agg",
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "SUITE_OUTCOMES": str(report),
        }
        options = ["-q", "--tb=short", "-p", "suite_outcomes"]
        options += ["-p", "no:cacheprovider", "-c", str(settings)]
        options += [f"--rootdir={suite.folder}", "-k", suite.select]
        began = time.monotonic()
        said = _output([python, "-m", "pytest", *options, *files], suite, env)
        seconds = time.monotonic() - began
        text = report.read_text() if report.exists() else ""
    lines = [json.loads(line) for line in text.splitlines()]
    return Run(
        {line["test"]: line["outcome"] for line in lines},
        sum(line["lowered"] for line in lines),
        sum(line["lowered"] > 0 for line in lines),
        seconds,
        said,
    )


def _output(
    command: Sequence[Any], suite: Suite, env: Mapping[str, str]
) -> str:
    try:
        return subprocess.run(
            command,
            cwd=suite.folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT,
            check=False,
        ).stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as late:
        return (late.output or b"").decode(errors="replace")


def compare(python: str, suite: Suite, modes: Iterable[str]) -> Comparison:
    """Runs a suite without the variable and with each of the modes, at once."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        going = {
            mode: pool.submit(run, python, suite, mode)
            for mode in (PLAIN[0], *modes)
        }
        runs = {mode: one.result() for mode, one in going.items()}
    found = Comparison(suite, runs)
    if any(found.differ(mode) for mode in modes):
        found.runs["again"] = run(python, suite, "again")
    return found
