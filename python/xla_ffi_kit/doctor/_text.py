"""The doctor's reports as text for people."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from xla_ffi_kit.doctor._library_report import Report

_HEADING = ("handler", "platform", "stages", "FFI", "traits", "state", "jaxlib")


def columns(rows: Iterable[Sequence[str]]) -> str:
    """Rows as lines with aligned columns."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)) for row in rows)
    return "\n".join(f"  {line}".rstrip() for line in lines)


def _handlers(count: int) -> str:
    return f"{count} handler{'s' * (count != 1)}"


def library(report: Report) -> str:
    """A table of the handlers, and a verdict."""
    handlers, others = report["handlers"], report["other_exports"]
    name, count = os.path.basename(report["path"]), len(handlers)
    rows = [
        (
            *(h["name"], h["platform"], " ".join(h["stages"])),
            *(h["api_version"] or "?", ", ".join(h["traits"]) or "-"),
            *(h["state"] or "-", h["loads_in"]),
        )
        for h in handlers
    ]
    few = ", ".join(others[:5]) or "none"
    if len(others) > 5:
        few += f" and {len(others) - 5} more"
    signatures = []
    if report["kind"] == "handler table":
        known = (
            h["signature"] or f"{h['name']}: no signature" for h in handlers
        )
        signatures = ["signatures:", *(f"  {line}" for line in known)]
    problems = [(h["name"], h["problem"]) for h in handlers if h["problem"]]
    here = f"jaxlib {report['jaxlib']} (FFI {report['runtime'] or 'unknown'})"
    verdict = f"{here} loads every handler"
    if problems:
        verdict = f"{here} does not load:\n{columns(problems)}"
    return "\n".join(
        [
            f"{name}: {_handlers(count)} (found by: "
            f"{report['kind']}); needs glibc >= {report['glibc'] or 'any'}",
            columns([_HEADING, *rows]),
            *signatures,
            f"other exports: {few}",
            f"linked against: {', '.join(report['needed']) or 'nothing'}",
            verdict,
        ]
    )


def environment(report: Report) -> str:
    """Versions, devices, libraries, operations."""

    def pairs(key: str) -> str:
        return ", ".join(f"{k} {v}" for k, v in report[key].items())

    devices = ", ".join(f"{n} {p}" for p, n in report["devices"].items())
    lines = [
        f"{pairs('versions')}; XLA FFI {report['runtime'] or 'unknown'}",
        f"devices: {devices or 'none'}",
        f"JAX plugins: {pairs('plugins') or 'none'}",
        "libraries:",
        columns(map(_library_row, report["libraries"])),
        "operations:",
        columns(
            [o[key] for key in ("name", "platform", "runs", "why")]
            for o in report["operations"]
        ),
    ]
    for title, rows in report["sections"].items():
        lines += [f"{title}:", columns(rows.items())]
    if report["switched"]:
        lines.append(f"XLA_FFI_KIT_REFERENCE={report['switched']}")
    loads = report["loads"]
    return "\n".join([*lines, f"{'e' if loads else 'NOT e'}verything loads"])


def _library_row(state: Report) -> tuple[str, ...]:
    said = f"{_handlers(state['handlers'])}, FFI {state['api_version']}"
    if state["absent"]:
        said = "absent: operations run their reference"
    name = os.path.basename(state["path"])
    return name, ", ".join(state["platforms"]), state["problem"] or said
