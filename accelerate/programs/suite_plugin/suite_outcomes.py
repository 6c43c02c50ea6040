"""A pytest plugin that writes what became of each test, and what it lowered.

`suites` loads it into the processes that run the tests. Each test is a line of
JSON in the file that SUITE_OUTCOMES names, written as the test ends: of a
process that crashes, the lines before are there.
"""

from __future__ import annotations

import json
import logging
import os
from typing import Any

WORST_FIRST = ("failed", "skipped", "passed")


class Lowered(logging.Handler):
    """Counts the operations that the package says it has lowered."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += record.levelno == logging.DEBUG


class Outcomes:
    """The hooks."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "w", buffering=1)
        self._phases: dict[str, list[str]] = {}
        self._lowered = Lowered()
        log = logging.getLogger("xla_ffi_accelerate")
        log.setLevel(logging.DEBUG)
        log.addHandler(self._lowered)
        # Tests that look at JAX's log find in it what they expect.
        log.propagate = False

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be imported is a test that fails."""
        if report.outcome != "passed":
            self._write(report.nodeid, report.outcome)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Set-up, call and tear-down of a test; the worst of them counts."""
        phases = self._phases.setdefault(report.nodeid, [])
        phases.append(report.outcome)
        if report.when == "teardown":
            del self._phases[report.nodeid]
            self._write(report.nodeid, min(phases, key=WORST_FIRST.index))

    def _write(self, test: str, outcome: str) -> None:
        lowered, self._lowered.count = self._lowered.count, 0
        line = {"test": test, "outcome": outcome, "lowered": lowered}
        self._file.write(json.dumps(line) + "\n")


def pytest_configure(config: Any) -> None:
    """Pytest calls it once."""
    config.pluginmanager.register(Outcomes(os.environ["SUITE_OUTCOMES"]))
