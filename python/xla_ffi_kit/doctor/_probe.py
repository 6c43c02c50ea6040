"""Reads and loads a handler library, in a separate process.

    python _probe.py LIBRARY OUTPUT

A broken library may have tables without an end, or crash in a constructor or in
a metadata call. This ends this process or a child of it within the limits set
here, and never the doctor. JAX is not imported, so that it cannot interact with
the library.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.machinery
import importlib.util
import json
import os
import re
import resource
import signal
import sys
import types
from collections.abc import Iterator, Sequence
from typing import TypedDict

from xla_ffi_kit.doctor import _elf_symbols
from xla_ffi_kit.library import c_api, rows

_SECONDS = 2  # that a metadata call may take; it takes microseconds
_MOST_HANDLERS = 1 << 16
# Limits of this process and of each child. Mapped files are not data.
_LIMITS = {
    resource.RLIMIT_CPU: 30,  # seconds
    resource.RLIMIT_DATA: 4 << 30,
    resource.RLIMIT_FSIZE: 1 << 29,
    resource.RLIMIT_CORE: 0,
}

_GetPointer = ctypes.PYFUNCTYPE(
    ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p
)(("PyCapsule_GetPointer", ctypes.pythonapi))
_GetName = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)

# A pybind11 or nanobind function without arguments that returns a capsule.
_RETURNS_CAPSULE = re.compile(r"\w+\(\) -> (capsule|types\.CapsuleType)")


class Answer(TypedDict, total=False):
    """A handler's answer to a metadata call, or `error`."""

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
    signature: str


class Loaded(TypedDict, total=False):
    """The contents of a loaded library: handlers, and state types by number."""

    handlers: list[FoundHandler]
    types: dict[str, str]


class Found(Loaded, total=False):
    """Everything found in a library, or `error`."""

    kind: str  # "handler table", "exported functions" or "Python module"
    exports: list[str]
    needed: list[str]
    glibc: list[int] | None
    error: str


def ask(address: int) -> Answer:
    """The answer to a metadata call, made in a process of its own."""
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        try:
            signal.alarm(_SECONDS)
            os.write(writable, json.dumps(_answer(address)).encode())
        finally:  # nothing of the parent's is the child's to go on with
            os._exit(0)
    os.close(writable)
    with open(readable, encoding="utf-8") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if text:
        said: Answer = json.loads(text)
        return said
    how = how_it_ended(os.waitstatus_to_exitcode(status))
    return {"error": f"a metadata call ends the process ({how})"}


def _answer(address: int) -> Answer:
    try:
        metadata = c_api.read_metadata(address)
    except ValueError as error:
        return {"error": str(error)}
    return {
        "api_version": metadata.api_version,
        "traits": metadata.traits,
        "state_type_id": metadata.state_type_id,
    }


def how_it_ended(status: int) -> str:
    """An exit status, or the name of the signal whose negative it is."""
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}" if status < 0 else f"exit status {status}"


def table(path: str, functions: Sequence[str]) -> Loaded:
    """Every handler and type of a library with a handler table."""
    library = ctypes.CDLL(path)
    get_table = getattr(library, c_api.TABLE_SYMBOL)
    get_table.restype = ctypes.POINTER(c_api.HandlerTable)
    contents = get_table().contents
    if max(contents.num_handlers, contents.num_types) > _MOST_HANDLERS:
        raise ValueError("its handler table names too many handlers or types")
    names = {}
    for number, state in enumerate(rows.types_in(contents), start=1):
        # Stands in for XLA, which numbers the types when it registers them;
        # a handler whose type has no number answers with an error.
        ctypes.c_int64.from_address(state.type_id).value = number
        names[str(number)] = _elf_symbols.printable(state.name)
    symbols = _symbols(library, functions)
    handlers: list[FoundHandler] = []
    for handler in rows.handlers_in(contents):
        stages = {s: ask(a) for s, a in handler.stages.items()}
        signature = str(handler.signature() or "")
        handlers.append(
            {
                "signature": _elf_symbols.printable(signature),
                "name": _elf_symbols.printable(handler.name),
                "platform": _elf_symbols.printable(handler.platform),
                "stages": stages,
                "symbols": [symbols.get(a) for a in handler.stages.values()],
            }
        )
    return {"handlers": handlers, "types": names}


def _symbols(
    library: ctypes.CDLL, functions: Sequence[str]
) -> dict[int | None, str]:
    """Address -> name of the exported functions."""
    return {
        ctypes.cast(getattr(library, name), ctypes.c_void_p).value: name
        for name in functions
        if hasattr(library, name)
    }


def symbols(path: str, functions: Sequence[str]) -> Loaded:
    """The exported C functions that answer a metadata call as handlers do."""
    library = ctypes.CDLL(path)
    handlers: list[FoundHandler] = []
    for address, name in _symbols(library, functions).items():
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


def module(path: str, functions: Sequence[str]) -> Loaded:
    """The capsules that a Python extension module hands out.

    Those of `registrations()`, as jaxlib's modules have it, and of every
    function whose signature is `name() -> capsule`.
    """
    init = next(f for f in functions if f.startswith("PyInit_"))
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


_HOW = {
    "handler table": table,
    "exported functions": symbols,
    "Python module": module,
}


def _kind(library: _elf_symbols.SharedLibrary) -> str:
    if c_api.TABLE_SYMBOL in library.functions:
        return "handler table"
    if not library.calls_ffi:
        raise _elf_symbols.ElfError(
            "is a shared library without any FFI handler"
        )
    if any(f.startswith("PyInit_") for f in library.functions):
        return "Python module"
    return "exported functions"


def examine(path: str, output: str) -> Found:
    """Returns what the file contains, or the error."""
    try:
        library = _elf_symbols.read(path)
        kind = _kind(library)
    except _elf_symbols.ElfError as error:
        return {"error": str(error)}
    except OSError as error:
        return {"error": f"cannot be read: {error.strerror}"}
    _write(output, {"error": LOADING})
    try:
        loaded = _HOW[kind](path, library.functions)
    except Exception as error:  # a module's code may raise anything
        return {"error": f"cannot be loaded: {' '.join(str(error).split())}"}
    return {
        "handlers": loaded["handlers"],
        "types": loaded["types"],
        "kind": kind,
        "exports": [*library.functions, *library.objects],
        "needed": list(library.needed),
        "glibc": list(library.glibc) if library.glibc else None,
    }


LOADING = "is being loaded"  # what stays if that ends the process


def _write(output: str, found: Found) -> None:
    with open(f"{output}.new", "w", encoding="utf-8") as file:
        json.dump(found, file, ensure_ascii=False)
    os.replace(file.name, output)  # what was loaded may end us at any time


def main(path: str, output: str) -> None:
    """Writes what the file contains, or the error, as JSON."""
    for limit, most in _LIMITS.items():
        hard = resource.getrlimit(limit)[1]
        if hard == resource.RLIM_INFINITY or hard > most:
            resource.setrlimit(limit, (most, most))
    # Discard anything the library prints.
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        try:
            found = examine(path, output)
        except MemoryError:
            found = {"error": "cannot be read: it takes too much memory"}
    _write(output, found)


if __name__ == "__main__":
    main(*sys.argv[1:])
