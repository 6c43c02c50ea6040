"""Reports what a handler library offers, and where it will load."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile

from xla_ffi_kit.doctor._elf_symbols import printable
from xla_ffi_kit.doctor._probe import (
    LOADING,
    Answer,
    Found,
    FoundHandler,
    how_it_ended,
)
from xla_ffi_kit.library import c_api, releases

_SECONDS = 60  # that reading and loading a library may take
_LAST_BYTES = 4096  # of what the process that does it says

# The package without its __init__, which would import JAX.
_RUN_PROBE = """
import sys, types
package = types.ModuleType("xla_ffi_kit")
package.__path__ = [sys.argv.pop(1)]
sys.modules["xla_ffi_kit"] = package
from xla_ffi_kit.doctor import _probe
_probe.main(*sys.argv[1:])
"""


class NotAHandlerLibraryError(ValueError):
    """A file has no handlers to report; the message says why."""


@dataclasses.dataclass(frozen=True)
class HandlerReport:
    """A custom call target. "?" or None means that the library does not say."""

    name: str  # the custom call target, or the function's name
    platform: str  # "cpu", "cuda"
    stages: tuple[str, ...]
    api_version: str | None  # of the FFI headers it was built with, "0.2"
    traits: tuple[str, ...]  # e.g. "command buffer compatible"
    state: str | None  # name of the type it keeps as state, if any
    loads_in: str  # the jaxlib releases that take it, in words
    problem: str | None  # why it does not load into the running jaxlib
    signature: str | None = None  # one line to call it by


@dataclasses.dataclass(frozen=True)
class LibraryReport:
    """A handler library."""

    path: str
    kind: str  # "handler table", "exported functions" or "Python module"
    handlers: tuple[HandlerReport, ...]  # by name
    other_exports: tuple[str, ...]  # neither handler nor table
    needed: tuple[str, ...]  # the libraries it is linked against
    glibc: str | None  # the oldest that it loads with, "2.34"
    jaxlib: str | None  # the running one
    runtime: str | None  # FFI version of the running jaxlib, "0.3"

    @property
    def loads(self) -> bool:
        """Whether every handler loads into the running jaxlib."""
        return not any(handler.problem for handler in self.handlers)


@dataclasses.dataclass(frozen=True)
class Runtime:
    """The jaxlib that handlers are judged by."""

    jaxlib: str | None
    api_version: tuple[int, int] | None


def examine(path: str, runtime: Runtime) -> LibraryReport:
    """Reads and loads the handler library at `path`, in another process.

    Raises:
      NotAHandlerLibraryError: the file cannot be read, is no shared library
        for this machine, has no handlers, or cannot be loaded.
    """
    found = _probe(path)
    if "error" in found:
        raise NotAHandlerLibraryError(f"{path} {found['error']}")
    if not found["handlers"]:
        raise NotAHandlerLibraryError(f"{path} offers no FFI handler")
    known = {c_api.TABLE_SYMBOL}
    for handler in found["handlers"]:
        known.update(s for s in handler["symbols"] if s)
    exports = set(found["exports"])
    if found["kind"] == "Python module":
        known.update(e for e in exports if e.startswith("PyInit_"))
    handlers = (_handler(h, found["types"], runtime) for h in found["handlers"])
    return LibraryReport(
        path=path,
        kind=found["kind"],
        handlers=tuple(sorted(handlers, key=lambda h: (h.name, h.platform))),
        other_exports=tuple(
            # C names first: they are the ones nobody meant to export.
            sorted(exports - known, key=lambda n: (n.startswith("_Z"), n))
        ),
        needed=tuple(found["needed"]),
        glibc=_dots(tuple(found["glibc"])) if found["glibc"] else None,
        jaxlib=runtime.jaxlib,
        runtime=_dots(runtime.api_version) if runtime.api_version else None,
    )


def _probe(path: str) -> Found:
    """Runs the probe in another process, and returns what it finds."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "found.json")
        arguments = [package, os.path.abspath(path), output]
        with open(os.path.join(folder, "stderr"), "w+b") as said:
            probe = subprocess.Popen(
                [sys.executable, "-c", _RUN_PROBE, *arguments],
                # Under Bazel the packages are not where Python looks itself.
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,  # so that all of it can be ended
            )
            try:
                status = probe.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                return {"error": f"was not read and loaded within {_SECONDS} s"}
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(probe.pid, signal.SIGKILL)
                probe.wait()
            said.seek(max(said.tell() - _LAST_BYTES, 0))
            lines = said.read(_LAST_BYTES).decode(errors="replace").split("\n")
        found: Found = {"error": "cannot be read"}
        if os.path.exists(output):
            with contextlib.suppress(ValueError):
                with open(output, encoding="utf-8") as file:
                    found = json.load(file)
    if status == 0 or "error" not in found:
        return found
    error = found["error"]
    if error == LOADING:
        error = "ends the process that loads it"
    error += f" ({how_it_ended(status)})"
    if status > 0:  # the linker, for one, says why it gives up
        said_last = [line.strip() for line in lines if line.strip()][-1:]
        error += "".join(f": {printable(line)}" for line in said_last)
    return {"error": error}


def _handler(
    found: FoundHandler, types: dict[str, str], runtime: Runtime
) -> HandlerReport:
    answers = found["stages"]
    errors = [a["error"] for a in answers.values() if "error" in a]
    versions = [
        (a["api_version"][0], a["api_version"][1])
        for a in answers.values()
        if "error" not in a
    ]
    version = max(versions, default=None)
    traits = max((a.get("traits", 0) for a in answers.values()), default=0)
    platform = found.get("platform", "?")
    state = _state(answers, types)
    keeps_state = platform == "cpu" and state is not None
    return HandlerReport(
        name=found["name"],
        platform=platform,
        stages=tuple(answers),
        api_version=_dots(version) if version else None,
        traits=("command buffer compatible",)
        if traits & c_api.COMMAND_BUFFER_COMPATIBLE
        else (),
        state=state,
        loads_in=releases.loads_in(version, old_state=keeps_state)
        if version
        else "?",
        problem=_problem(version, keeps_state, runtime)
        if version
        else next((e for e in errors if not _wants_type(e)), None),
        signature=found.get("signature") or None,
    )


def _state(answers: dict[str, Answer], types: dict[str, str]) -> str | None:
    for answer in answers.values():
        if answer.get("state_type_id"):
            number = str(answer["state_type_id"])
            return types.get(number, f"type {number}")
        if _wants_type(answer.get("error", "")):
            return "a type that no table names"
    return None


def _wants_type(error: str) -> bool:
    """Whether a handler fails only because its state's type has no number.

    Only the library's owner can register the type, so the doctor cannot learn
    the handler's version.
    """
    return "must be registered" in error


def _problem(
    version: tuple[int, int], keeps_state: bool, runtime: Runtime
) -> str | None:
    """Returns why the running jaxlib does not load a handler, or None."""
    ours = runtime.api_version
    if version < releases.OLDEST:
        return "built for FFI 0.0, which XLA refuses"
    if ours and version > ours:
        return (
            f"built for FFI {_dots(version)}, jaxlib {runtime.jaxlib} speaks "
            f"{_dots(ours)}: update jaxlib, or build with older headers"
        )
    if keeps_state and releases.crashes(version, runtime.jaxlib or ""):
        return f"jaxlib {runtime.jaxlib} crashes on state of FFI < 0.3"
    return None


def _dots(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
