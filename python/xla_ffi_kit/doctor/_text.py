"""The doctor's reports as text for people."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from xla_ffi_kit.doctor._environment import EnvironmentReport, LibraryState
from xla_ffi_kit.doctor._library_report import HandlerReport, LibraryReport


def columns(rows: Iterable[Sequence[str]], indent: str = "  ") -> str:
    """Rows as lines with aligned columns."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        (
            indent
            + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


_HEADING = ("handler", "platform", "stages", "FFI", "traits", "state", "jaxlib")


def library(report: LibraryReport) -> str:
    """A table of the handlers, and a verdict."""
    rows = [_HEADING, *map(_row, report.handlers)]
    count = len(report.handlers)
    lines = [
        f"{os.path.basename(report.path)}: {count} "
        f"handler{'s' * (count != 1)} (found by: {report.kind}); needs glibc "
        f">= {report.glibc or 'any'}",
        columns(rows),
        *_signatures(report),
        f"other exports: {_few(report.other_exports)}",
        f"linked against: {', '.join(report.needed) or 'nothing'}",
    ]
    here = f"jaxlib {report.jaxlib} (FFI {report.runtime or 'unknown'})"
    problems = [h for h in report.handlers if h.problem]
    if problems:
        lines.append(f"{here} does not load:")
        lines.append(columns([(h.name, h.problem or "") for h in problems]))
    else:
        lines.append(f"{here} loads every handler")
    return "\n".join(lines)


def _signatures(report: LibraryReport) -> list[str]:
    """Describes what each handler takes, if handlers have signatures."""
    if report.kind != "handler table":
        return []
    lines = (h.signature or f"{h.name}: no signature" for h in report.handlers)
    return ["signatures:", *(f"  {line}" for line in lines)]


def _row(handler: HandlerReport) -> tuple[str, ...]:
    return (
        handler.name,
        handler.platform,
        " ".join(handler.stages),
        handler.api_version or "?",
        ", ".join(handler.traits) or "-",
        handler.state or "-",
        handler.loads_in,
    )


def _few(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(names[:most]) or "none"
    more = len(names) - most
    return f"{shown} and {more} more" if more > 0 else shown


def environment(report: EnvironmentReport) -> str:
    """Versions, devices, libraries, operations."""
    versions = ", ".join(f"{k} {v}" for k, v in report.versions.items())
    devices = ", ".join(f"{n} {p}" for p, n in report.devices.items())
    plugins = ", ".join(f"{k} {v}" for k, v in report.plugins.items())
    lines = [
        f"{versions}; XLA FFI {report.runtime or 'unknown'}",
        f"devices: {devices or 'none'}",
        f"JAX plugins: {plugins or 'none'}",
        "libraries:",
        columns(_library_row(library) for library in report.libraries),
        "operations:",
        columns((o.name, o.platform, o.runs, o.why) for o in report.operations),
    ]
    for title, rows in report.sections.items():
        lines += [f"{title}:", columns(rows.items())]
    if report.switched:
        lines.append(f"XLA_FFI_KIT_REFERENCE={report.switched}")
    lines.append("known faults of this jaxlib itself, on CPUs:")
    if report.jaxlib_faults is None:
        lines.append("  unknown: this release has not been tried")
    else:
        lines.append(columns(report.jaxlib_faults.items()) or "  none")
    lines.append("everything loads" if report.loads else "NOT everything loads")
    return "\n".join(lines)


def _library_row(state: LibraryState) -> tuple[str, ...]:
    name, platforms = os.path.basename(state.path), ", ".join(state.platforms)
    if state.absent:
        return (name, platforms, "absent: operations run their reference")
    if state.problem:
        return (name, platforms, state.problem)
    count = f"{state.handlers} handlers, FFI {state.api_version}"
    return (name, platforms, count)
