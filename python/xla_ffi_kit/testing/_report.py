"""The report of `check_op`: a table and, for failures, the failing call."""

from __future__ import annotations

import dataclasses
import textwrap


@dataclasses.dataclass(frozen=True)
class Row:
    """The outcome of one check of one case."""

    check: str
    case: str
    status: str  # "passed", "FAILED" or "skipped"
    seconds: float
    message: str = ""
    snippet: str = ""


@dataclasses.dataclass(frozen=True)
class Report:
    """The outcome of `check_op`."""

    op: str
    rows: tuple[Row, ...]

    @property
    def failures(self) -> tuple[Row, ...]:
        return tuple(r for r in self.rows if r.status == "FAILED")

    def __str__(self) -> str:
        names = list(dict.fromkeys(row.check for row in self.rows))
        width = max(map(len, names), default=0)
        lines = [f"{self.op}"]
        for name in names:
            rows = [r for r in self.rows if r.check == name]
            count = {
                s: sum(r.status == s for r in rows)
                for s in ("passed", "FAILED", "skipped")
            }
            counts = ", ".join(f"{n} {s}" for s, n in count.items() if n)
            seconds = sum(r.seconds for r in rows)
            line = f"  {name:{width}}  {counts:24}  {seconds:5.1f} s"
            if count["skipped"]:
                reason = next(r.message for r in rows if r.status == "skipped")
                line += f"  ({reason})"
            lines.append(line)
        skipped = [row for row in self.rows if row.status == "skipped"]
        if skipped:
            reasons = "; ".join(dict.fromkeys(row.message for row in skipped))
            part = f"{len(skipped)} of {len(self.rows)}"
            lines.append(f"{part} checks skipped ({reasons})")
        lines += [
            f"\n{row.check} failed for {row.case}: {row.message}"
            for row in self.failures
        ]
        if self.failures:
            first = self.failures[0]
            lines.append(f"\nTo copy, {first.check}:")
            lines.append(textwrap.indent(first.snippet, "    "))
        return "\n".join(lines)


class CheckError(AssertionError):
    """Some checks failed; the text is the whole report."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report
