"""Loads a handler library and asks its handlers, in a process of its own.

    python _probe.py LIBRARY HOW OUTPUT

Whatever the library does - dying in a constructor, answering a metadata call
by a crash - ends this process or a child of it, never the doctor. JAX is not
imported, so nothing of it can get mixed up with the library.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.machinery
import importlib.util
import json
import os
import re
import signal
import sys
import types
from collections.abc import Iterator
from typing import TypedDict

from xla_ffi_kit.doctor import _elf_symbols
from xla_ffi_kit.library import c_api, handler_library

_SECONDS = 2  # that a metadata call may take; it takes microseconds

_GetPointer = ctypes.PYFUNCTYPE(
    ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p
)(("PyCapsule_GetPointer", ctypes.pythonapi))
_GetName = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)

# A pybind11 or nanobind function without arguments that returns a capsule.
_RETURNS_CAPSULE = re.compile(r"\w+\(\) -> (capsule|types\.CapsuleType)")


class Answer(TypedDict, total=False):
    """What a handler's function says to a metadata call, or `error`."""

    api_version: tuple[int, int]
    traits: int
    state_type_id: int
    error: str


class FoundHandler(TypedDict, total=False):
    """A handler: by stage, the answers and exported names of its functions."""

    name: str
    platform: str
    stages: dict[str, Answer]
    symbols: list[str | None]


class Found(TypedDict, total=False):
    """What is in a library: handlers and state types by number, or `error`."""

    handlers: list[FoundHandler]
    types: dict[str, str]
    error: str


def ask(address: int) -> Answer:
    """The answer to a metadata call, made in a process of its own."""
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(_SECONDS)
        try:
            metadata = c_api.read_metadata(address)
            answer: Answer = {
                "api_version": metadata.api_version,
                "traits": metadata.traits,
                "state_type_id": metadata.state_type_id,
            }
        except ValueError as error:
            answer = {"error": str(error)}
        os.write(writable, json.dumps(answer).encode())
        os._exit(0)
    os.close(writable)
    with open(readable, encoding="utf-8") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if text:
        said: Answer = json.loads(text)
        return said
    how = (
        signal.Signals(os.WTERMSIG(status)).name
        if os.WIFSIGNALED(status)
        else f"exit status {os.WEXITSTATUS(status)}"
    )
    return {"error": f"a metadata call ends the process ({how})"}


def table(path: str) -> Found:
    """Every handler and type of a library with a handler table."""
    library = ctypes.CDLL(path)
    get_table = getattr(library, c_api.TABLE_SYMBOL)
    get_table.restype = ctypes.POINTER(c_api.HandlerTable)
    contents = get_table().contents
    names = {}
    for number, state in enumerate(handler_library.types_in(contents), start=1):
        # Stands in for XLA, which numbers the types when it registers them;
        # a handler whose type has no number answers with an error.
        ctypes.c_int64.from_address(state.type_id).value = number
        names[str(number)] = state.name
    symbols = _symbols(library, path)
    handlers: list[FoundHandler] = []
    for handler in handler_library.handlers_in(contents):
        stages = {s: ask(a) for s, a in handler.stages.items()}
        handlers.append(
            {
                "name": handler.name,
                "platform": handler.platform,
                "stages": stages,
                "symbols": [symbols.get(a) for a in handler.stages.values()],
            }
        )
    return {"handlers": handlers, "types": names}


def _symbols(library: ctypes.CDLL, path: str) -> dict[int | None, str]:
    """Address -> name of the exported functions."""
    return {
        ctypes.cast(getattr(library, name), ctypes.c_void_p).value: name
        for name in _elf_symbols.read(path).functions
        if hasattr(library, name)
    }


def symbols(path: str) -> Found:
    """The exported C functions that answer a metadata call as handlers do."""
    library = ctypes.CDLL(path)
    handlers: list[FoundHandler] = []
    for address, name in _symbols(library, path).items():
        if address is None or name.startswith("_"):
            continue  # C++ names, and the linker's own
        answer = ask(address)
        # A function that is no handler crashes or leaves the metadata alone.
        if tuple(answer.get("api_version", (0, 0))) != (0, 0) or (
            "must be registered" in answer.get("error", "")
        ):
            handlers.append(
                {"name": name, "stages": {"?": answer}, "symbols": [name]}
            )
    return {"handlers": handlers, "types": {}}


def module(path: str) -> Found:
    """The capsules that a Python extension module hands out.

    Those of `registrations()`, as jaxlib's modules have it, and of every
    function whose signature is `name() -> capsule`.
    """
    init = next(
        f for f in _elf_symbols.read(path).functions if f.startswith("PyInit_")
    )
    name = init.removeprefix("PyInit_")
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    loaded = importlib.util.module_from_spec(spec)
    loader.exec_module(loaded)
    handlers: list[FoundHandler] = []
    for target, capsules in _capsules(loaded):
        stages = {}
        for stage, capsule in capsules.items():
            stages[stage] = ask(_GetPointer(capsule, _GetName(capsule)))
        handlers.append({"name": target, "stages": stages, "symbols": []})
    return {"handlers": handlers, "types": {}}


def _capsules(
    loaded: types.ModuleType,
) -> Iterator[tuple[str, dict[str, object]]]:
    registrations = getattr(loaded, "registrations", None)
    if callable(registrations):
        for name, found in registrations().items():
            stages = found if isinstance(found, dict) else {"execute": found}
            yield name, {s: c for s, c in stages.items() if _is_capsule(c)}
        return
    for name, function in vars(loaded).items():
        doc = getattr(function, "__doc__", None) or ""
        if callable(function) and _RETURNS_CAPSULE.match(doc):
            capsule = function()
            if _is_capsule(capsule):
                yield name, {"?": capsule}


def _is_capsule(value: object) -> bool:
    return type(value).__name__ == "PyCapsule"


_HOW = {"table": table, "symbols": symbols, "module": module}


def main(path: str, how: str, output: str) -> None:
    """Writes what there is to be found, or the error, as JSON."""
    # Discard anything the library prints.
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        try:
            found: Found = _HOW[how](path)
        except (OSError, ImportError, AttributeError, ValueError) as error:
            found = {"error": f"cannot be loaded: {error}"}
    with open(output, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
