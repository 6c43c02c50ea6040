"""`python -m xla_ffi_kit doctor` reports what is there and what will load.

It reports on a handler library or on the running environment: docs/doctor.md.
A child process loads everything, so that there is a sentence if that ends it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import jax
import jaxlib

import xla_ffi_kit
from xla_ffi_kit import _jax_hooks, ffi_op, report
from xla_ffi_kit.doctor import handlers
from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.library import describe, registration, releases
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES, HandlerLibrary
from xla_ffi_kit.op.spec import OpSpec

_LIBRARY_SECONDS, _PACKAGE_SECONDS = 60, 600  # a package may compile strings
_HEADING = ("handler", "platform", "stages", "FFI", "traits", "state", "jaxlib")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns 0 if everything loads, else 1."""
    options = _parser().parse_args(arguments)
    seconds = _LIBRARY_SECONDS if options.library else _PACKAGE_SECONDS

    def work(emit: handlers.Emit) -> None:
        signal.alarm(seconds)
        os.dup2(2, 1)  # what a library prints is no part of the report
        emit(_report(options))

    results, status = handlers.run_apart(work)
    lines, problems = results[0] if results else ([], [])
    for line in lines:
        print(_printable(line))
    if not results:
        what = options.library or ", ".join(options.imports) or "JAX"
        how = signal.Signals(-status).name if status < 0 else f"exit {status}"
        problems = [f"{what} ends the process that loads it ({how})"]
        if -status == signal.SIGALRM:
            problems = [f"{what} was not read and loaded within {seconds} s"]
    for problem in problems:
        print(f"doctor: {_printable(problem)}", file=sys.stderr)
    return 1 if problems else 0


def _printable(line: str) -> str:
    """A line without control codes, which a terminal would obey."""
    return line if line.isprintable() else ascii(line)[1:-1]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m xla_ffi_kit doctor",
        description="Without a library, reports on the running environment. "
        "With one, loads it in a process of its own, which runs its code.",
        epilog="Exit status: 0 if everything loads, 1 if something does not.",
    )
    parser.add_argument("library", nargs="?", help="a handler library (.so)")
    parser.add_argument(
        "--import",
        dest="imports",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="import PACKAGE first, and report on its operations and on the "
        "handlers that it registers",
    )
    return parser


# --- The process that loads everything ---------------------------------------

# The lines to print, and a sentence for what does not load.
_Report: TypeAlias = tuple[list[str], list[str]]


def _report(options: argparse.Namespace) -> _Report:
    sys.path.insert(0, os.getcwd())  # as for any module named on a line
    try:
        packages = [*map(_import, options.imports)]
        if options.library:
            return _library(HandlerLibrary(options.library))
        return _environment(packages)
    except HandlerLibraryError as error:
        return [], [str(error)]
    # Another project's module may raise anything, even SystemExit.
    except (Exception, SystemExit) as error:
        return [], [" ".join(f"{type(error).__name__}: {error}".split())]


def _import(name: str) -> tuple[str, list[_jax_hooks.Registration]]:
    with _jax_hooks.registrations() as registered:
        importlib.import_module(name)
    return name, registered


def _columns(table: Iterable[Sequence[str]]) -> list[str]:
    """Rows as lines with aligned columns."""
    rows = [*table]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)) for row in rows)
    return [f"  {line}".rstrip() for line in lines]


def _table(rows: Iterable[handlers.Row]) -> list[str]:
    return _columns([_HEADING, *(row.cells for row in rows)])


def _problems(rows: Iterable[handlers.Row]) -> list[str]:
    return [f"{r.handler.name} {r.problem}" for r in rows if r.problem]


def _count(number: int) -> str:
    return f"{number} handler{'s' * (number != 1)}"


def _here() -> str:
    version = registration.runtime_api_version()
    spoken = releases.dots(version) if version else "unknown"
    return f"jaxlib {jaxlib.__version__} (FFI {spoken})"


def _library(library: HandlerLibrary) -> _Report:
    contents = handlers.of_library(library)
    rows, others = contents.rows, contents.other_exports
    if not rows:
        raise HandlerLibraryError(f"{library.path} offers no FFI handler")
    lines = [
        f"{os.path.basename(library.path)}: {_count(len(rows))} (found by: "
        f"{contents.kind}); needs glibc >= {contents.glibc or 'any'}",
        *_table(rows),
    ]
    if contents.kind == handlers.TABLE:
        lines.append("signatures:")
        for handler in (row.handler for row in rows):
            signature = handler.signature()
            lines.append(f"  {signature or f'{handler.name}: no signature'}")
        lines += describe.wrong_names(library).values()
    shown = ", ".join(others[:5]) or "none"
    if len(others) > 5:
        shown += f" and {len(others) - 5} more"
    problems = _problems(rows)
    lines += [f"other exports: {shown}", *_verdict(problems)]
    return lines, problems


def _verdict(problems: Sequence[str]) -> list[str]:
    return [] if problems else [f"{_here()} loads everything"]


def _environment(
    packages: Iterable[tuple[str, list[_jax_hooks.Registration]]],
) -> _Report:
    operations = [op.spec for op in ffi_op.operations()]
    libraries = {library.path: library for library in KIT_LIBRARIES}
    for spec in operations:
        libraries |= {library.path: library for library in spec.libraries}
    problems: list[str] = []
    # Child processes ask handlers; they come before the threads of a backend.
    summaries = [_summary(lib, problems) for lib in libraries.values()]
    registered = {p: handlers.of_registrations(r) for p, r in packages}
    lines = [
        *(jax.print_environment_info(return_string=True) or "").splitlines(),
        f"xla_ffi_kit: {xla_ffi_kit.__version__}; {_here()}",
        "libraries:",
        *_columns(summaries),
        "operations:",
        *_columns(
            (spec.name, platform, _runs_on(spec, platform, problems))
            for spec in operations
            for platform in sorted(spec.handlers)
        ),
    ]
    for package, rows in registered.items():
        lines.append(f"{package} registers {_count(len(rows))}:")
        lines += _table(rows) if rows else []
        problems += _problems(rows)
    # What a package built on the kit says of itself: a function without
    # arguments that returns a section's lines, name -> state.
    entries = importlib.metadata.entry_points(group="xla_ffi_kit.doctor")
    for entry in sorted(entries, key=lambda entry: entry.name):
        lines += [f"{entry.name}:", *_columns(entry.load()().items())]
    return [*lines, *_verdict(problems)], [*dict.fromkeys(problems)]


def _summary(library: HandlerLibrary, problems: list[str]) -> tuple[str, str]:
    name = os.path.basename(library.path)
    if library.optional and not library.exists:
        return name, "absent: operations run their reference"
    try:
        rows = handlers.of_library(library).rows
    except HandlerLibraryError as error:
        problems.append(str(error))
        return name, "cannot be used"
    problems += _problems(rows)
    built = [releases.dots(row.version) for row in rows if row.version]
    platforms = ", ".join(library.platforms())
    said = f"{_count(len(rows))} for {platforms}, FFI {max(built, default='?')}"
    return name, said


def _runs_on(spec: OpSpec, platform: str, problems: list[str]) -> str:
    try:
        return report.runs_on(spec, platform)
    except HandlerLibraryError as error:
        problems.append(str(error))
        return "an error"
