"""`python -m xla_ffi_kit doctor` reports what is there and what will load.

It reports on a handler library or on the running environment: docs/doctor.md.
Another process loads everything. It writes down what it loads before it does,
so that this one has a sentence for it if that ends the process.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import operator
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from xla_ffi_kit.doctor import _environment, _library_report, _text
from xla_ffi_kit.doctor._environment import Loading
from xla_ffi_kit.doctor._library_report import Report
from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.op.spec import Result

# To load a package, which may compile strings; and to load a library.
_SECONDS = [600, 60]
_WORK = "from xla_ffi_kit import doctor; doctor._work()"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns 0 if everything loads, else 1."""
    options = vars(_parser().parse_args(arguments))
    with (
        tempfile.TemporaryFile("w+") as output,
        tempfile.TemporaryFile("w+", errors="replace") as log,
    ):
        done = subprocess.run(
            [sys.executable, "-c", _WORK]
            + [str(output.fileno()), json.dumps(options)],
            # Under Bazel the packages are not where Python looks itself.
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            pass_fds=[output.fileno()],
        )
        output.seek(0)
        log.seek(0)
        said = [json.loads(line) for line in output] or [{"path": __package__}]
        answer, lines = said[-1], log.read().splitlines()
    if not options["library"]:
        sys.stderr.writelines(f"{line}\n" for line in lines)  # JAX warns
    if "text" in answer:
        print("\n".join(map(_printable, answer["text"].split("\n"))))
        return int(answer["status"])
    path = answer["path"]
    problem = answer.get("problem") or _ending(done.returncode, answer, lines)
    if options["json"]:
        print(json.dumps({"path": path, "problem": problem}))
    else:
        about = "" if problem.startswith(f"{path} ") else f"{path}: "
        print(f"doctor: {_printable(about + problem)}", file=sys.stderr)
    return 1


def _printable(line: str) -> str:
    """A line without control codes, which a terminal would obey."""
    return line if line.isprintable() else ascii(line)[1:-1]


def _ending(status: int, loading: dict[str, str], log: list[str]) -> str:
    """Says what ended the process that loads everything."""
    path = loading["path"]
    if status == -signal.SIGALRM:
        return f"{path} was not read and loaded within {loading['seconds']} s"
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    if -status in set(signal.Signals):
        how = signal.Signals(-status).name
    # The linker, for one, says why it gives up.
    because = f": {log[-1].strip()}" if log and status > 0 else ""
    return f"{path} ends the process that loads it ({how}){because}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m xla_ffi_kit doctor",
        description="Without a library, reports on the running environment. "
        "With one, loads it in a process of its own, which runs its code.",
        epilog="Exit status: 0 if everything loads, 1 if something does not.",
    )
    library = parser.add_argument("library", nargs="?")
    library.help = "a handler library (.so), or MODULE:OPERATION, to report "
    library.help += "only on that, such as xla_ffi_kit:relu"
    parser.add_argument("--json", action="store_true", help="print JSON")
    imports = parser.add_argument("--import", dest="imports", action="append")
    imports.metavar, imports.default = "MODULE", []
    imports.help = "import MODULE first, to see its operations as well"
    return parser


# --- The process that loads everything ---------------------------------------


class _RefusedError(Exception):
    """What is asked for is not there; the arguments are path and problem."""


def _work() -> None:
    output = open(int(sys.argv[1]), "w", encoding="utf-8")
    options = json.loads(sys.argv[2])

    def loading(path: str) -> None:
        seconds = _SECONDS[os.path.isfile(path)]
        told = json.dumps({"path": path, "seconds": seconds})
        print(told, file=output, flush=True)
        signal.alarm(seconds)  # ends this process

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path.insert(0, os.getcwd())  # as for any module named on a line
    try:
        answer = _answer(options, loading)
    except _RefusedError as error:
        answer = dict(zip(("path", "problem"), error.args, strict=True))
    except HandlerLibraryError as error:
        answer = {"path": options["library"] or "", "problem": str(error)}
    print(json.dumps(answer), file=output, flush=True)
    os._exit(0)  # without what a library does at the end


def _answer(options: Report, loading: Loading) -> Report:
    for name in options["imports"]:
        _import(name, "--import", loading)
    path = options["library"] or ""
    if path and (":" not in path or os.path.exists(path)):
        loading(path)
        _check_is_no_module(path)
        found = _library_report.examine(path, _environment.runtime())
        text = _text.library(found)
    else:
        operations = [_operation(path, loading)] if path else None
        found = _environment.examine(operations, loading)
        text = _text.environment(found)
    if options["json"]:
        text = json.dumps(found, indent=2)
    return {"text": text, "status": 0 if found["loads"] else 1}


def _check_is_no_module(path: str) -> None:
    """Refuses the name of a module, which is not a file's."""
    if os.path.exists(path) or not all(map(str.isidentifier, path.split("."))):
        return
    try:
        found = importlib.util.find_spec(path)  # imports the packages it is in
    except ImportError:
        return
    if found is not None:
        raise _RefusedError(
            path,
            f"expected a file, got the name of a module: `--import {path}` "
            f"reports on its operations, `{path}:OPERATION` on one",
        )


def _operation(path: str, loading: Loading) -> FfiOp[Result]:
    module, _, name = path.partition(":")
    try:
        found = operator.attrgetter(name)(_import(module, path, loading))
    except AttributeError as error:
        raise _RefusedError(path, str(error)) from None
    if isinstance(found, FfiOp):
        return found
    other = f"--import {module} without a name reports on every operation"
    raise _RefusedError(path, f"expected an operation, got {found!r}; {other}")


def _import(name: str, path: str, loading: Loading) -> object:
    loading(name)
    try:
        return importlib.import_module(name)
    # Another project's module may raise anything, even SystemExit.
    except (Exception, SystemExit) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        problem = f"cannot import {name!r}: {reason}"
        raise _RefusedError(path, problem) from None
