"""`python -m xla_ffi_kit doctor` reports what is there and what will load.

For any handler library, it reports each handler's FFI version, stages, traits
and state, the library's other exports, and the jaxlib releases that load it.
For the running environment, it reports versions, devices, the library of each
operation, and the operations that run their reference, with the reason.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import operator
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xla_ffi_kit.doctor._environment import EnvironmentReport
    from xla_ffi_kit.doctor._library_report import LibraryReport
    from xla_ffi_kit.primitive.ffi_op import FfiOp
    from xla_ffi_kit.primitive.spec import Result

# Imports inside the functions: _probe runs where JAX is not to be imported.


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns 0 if everything loads, else 1."""
    options = _parser().parse_args(arguments)
    sys.path.insert(0, os.getcwd())  # as for any module named on this line
    try:
        for module in options.imports:
            _imported(module)
    except _NotFoundError as error:
        return _refused("--import", str(error), options.json)
    module, colon, name = (options.library or "").partition(":")
    if colon and not os.path.exists(options.library):
        return _operation(module, name, options.json)
    if options.library:
        return _library(options.library, options.json)
    return _report(None, options.json)


def _operation(module: str, name: str, as_json: bool) -> int:
    """Reports on one operation."""
    from xla_ffi_kit.primitive.ffi_op import FfiOp

    path = f"{module}:{name}"
    try:
        found = operator.attrgetter(name)(_imported(module))
    except (_NotFoundError, AttributeError) as error:
        return _refused(path, str(error), as_json)
    if not isinstance(found, FfiOp):
        problem = (
            f"expected an operation, got {found!r}; --import {module} without "
            "a name reports on every operation"
        )
        return _refused(path, problem, as_json)
    return _report([found], as_json)


class _NotFoundError(Exception):
    """A module cannot be imported; says why."""


def _imported(name: str) -> object:
    try:
        return importlib.import_module(name)
    # Another project's module may raise anything, even SystemExit.
    except (Exception, SystemExit) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise _NotFoundError(f"cannot import {name!r}: {reason}") from None


def _refused(path: str, problem: str, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"path": path, "problem": problem}))
    else:
        print(f"doctor: {path}: {problem}", file=sys.stderr)
    return 1


def _report(operations: Sequence[FfiOp[Result]] | None, as_json: bool) -> int:
    from xla_ffi_kit.doctor import _environment, _text

    report = _environment.examine(operations)
    return _printed(report, as_json, _text.environment(report))


def _library(path: str, as_json: bool) -> int:
    from xla_ffi_kit.doctor import _environment, _library_report, _text

    try:
        report = _library_report.examine(path, _environment.runtime())
    except _library_report.NotAHandlerLibraryError as error:
        if as_json:
            print(json.dumps({"path": path, "problem": str(error)}))
        else:
            print(f"doctor: {error}", file=sys.stderr)
        return 1
    return _printed(report, as_json, _text.library(report))


def _printed(
    report: EnvironmentReport | LibraryReport, as_json: bool, text: str
) -> int:
    print(json.dumps(dataclasses.asdict(report), indent=2) if as_json else text)
    return 0 if report.loads else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m xla_ffi_kit doctor",
        description="Without a library, reports on the running environment. "
        "With one, loads it in a process of its own, which runs its code.",
        epilog="Exit status: 0 if everything loads, 1 if something does not.",
    )
    parser.add_argument(
        "library",
        nargs="?",
        help="a handler library (.so), or MODULE:OPERATION, to report only "
        "on that, such as xla_ffi_kit:relu",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--import",
        dest="imports",
        metavar="MODULE",
        action="append",
        default=[],
        help="import MODULE first, to see its operations as well",
    )
    return parser
