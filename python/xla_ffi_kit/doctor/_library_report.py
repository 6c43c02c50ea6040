"""Reports what a handler library offers, and where it will load.

It loads the library into this process, which runs its code, and asks handlers
for their metadata, which they return without running.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.library import c_api, elf, releases, rows
from xla_ffi_kit.library.handler_library import HandlerLibrary
from xla_ffi_kit.library.rows import Handler

# The release of jaxlib that handlers are judged by, and its FFI version.
Runtime = tuple[str | None, tuple[int, int] | None]
Report = dict[str, Any]  # what JSON shows
# Stage -> the fields of c_api.Metadata, or "error".
_Answers = Mapping[str, Report]
_Addresses = dict[str, int]


def examine(path: str, runtime: Runtime) -> Report:
    """Reads and loads the handler library at `path`; returns what JSON shows.

    Raises HandlerLibraryError if the file cannot be read, is no shared library
    for this machine, has no handlers, or cannot be loaded.
    """
    try:
        file = elf.read(path)
        kind = _kind(file)
    except ValueError as error:
        raise HandlerLibraryError(f"{path} {error}") from None
    library = HandlerLibrary(path)
    try:
        exports = _addresses(library, file.functions)
        types = _names_of_types(library) if kind == "handler table" else {}
        found = list(_found(kind, library, exports))
    except Exception as error:  # a module's code may raise anything
        said = str(error).removeprefix(f"handler library {library.path} ")
        how = "cannot be loaded: " if said == str(error) else ""
        problem = f"{path} {how}{' '.join(said.split())}"
        raise HandlerLibraryError(problem) from None
    if not found:
        raise HandlerLibraryError(f"{path} offers no FFI handler")
    handlers = [_report(*one, types, runtime) for one in found]
    known = {at for handler, _ in found for at in handler.stages.values()}
    others = [
        name
        for name in (*file.functions, *file.objects)
        if exports.get(name) not in known and not _is_entry(name)
    ]
    # C names first: they are the ones nobody meant to export.
    others.sort(key=lambda name: (name.startswith("_Z"), name))
    ours = runtime[1]
    return {
        "path": path,
        "kind": kind,
        "handlers": sorted(handlers, key=lambda h: (h["name"], h["platform"])),
        "other_exports": others,  # neither handler nor table
        "needed": file.needed,  # the libraries it is linked against
        "glibc": file.glibc,  # the oldest that it loads with, "2.34"
        "jaxlib": runtime[0],
        "runtime": ours and releases.dots(ours),  # FFI version of jaxlib, "0.3"
        "loads": not any(handler["problem"] for handler in handlers),
    }


def _is_entry(name: str) -> bool:
    return name == c_api.TABLE_SYMBOL or name.startswith("PyInit_")


def _kind(file: elf.Contents) -> str:
    if c_api.TABLE_SYMBOL in file.functions:
        return "handler table"
    if not file.calls_ffi:
        raise ValueError("is a shared library without any FFI handler")
    is_module = any(map(_is_entry, file.functions))
    return "Python module" if is_module else "exported functions"


def _addresses(library: HandlerLibrary, names: Iterable[str]) -> _Addresses:
    found = {}
    for name in names:
        with contextlib.suppress(AttributeError):
            pointer = ctypes.cast(library.function(name), ctypes.c_void_p)
            found[name] = pointer.value or 0
    return found


def _names_of_types(library: HandlerLibrary) -> dict[int, str]:
    """Number -> name; gives a type a number, far from XLA's, until XLA does.

    A handler whose type has none answers with an error.
    """
    names = {}
    for number, state_type in enumerate(library.types, start=1 << 32):
        slot = ctypes.c_int64.from_address(state_type.type_id)
        slot.value = slot.value or number
        names[slot.value] = state_type.name
    return names


def _found(
    kind: str, library: HandlerLibrary, exports: _Addresses
) -> Iterator[tuple[Handler, _Answers]]:
    handlers: Iterable[Handler] = ()
    if kind == "handler table":
        handlers = library.handlers.values()
    elif kind == "Python module":
        name = next(filter(_is_entry, exports)).removeprefix("PyInit_")
        handlers = rows.of_module(name, library.path)
    for handler in handlers:
        yield handler, {s: _ask(at) for s, at in handler.stages.items()}
    for name, at in exports.items() if kind == "exported functions" else ():
        if name.startswith("_"):
            continue  # C++ names, and the linker's own
        answer = _ask(at, apart=True)
        # One that is no handler crashes or leaves the metadata alone.
        if _wants_type(answer) or any(answer.get("api_version", ())):
            yield Handler(name, "?", {"?": at}), {"?": answer}


def _ask(address: int, *, apart: bool = False) -> Report:
    read = c_api.read_metadata_apart if apart else c_api.read_metadata
    try:
        return dataclasses.asdict(read(address))
    except ValueError as error:
        return {"error": str(error)}


def _wants_type(answer: Report) -> bool:
    """Whether a handler fails only because its state's type has no number.

    Only the library's owner can register the type, so the doctor cannot learn
    the handler's version.
    """
    return "must be registered" in answer.get("error", "")


def _report(
    handler: Handler,
    answers: _Answers,
    types: Mapping[int, str],
    runtime: Runtime,
) -> Report:
    told = [a for a in answers.values() if "error" not in a]
    errors = [a["error"] for a in answers.values() if "error" in a]
    version = max((a["api_version"] for a in told), default=None)
    numbers = [a["state_type_id"] for a in told if a["state_type_id"]]
    state = types.get(numbers[0], f"type {numbers[0]}") if numbers else None
    if not numbers and any(map(_wants_type, answers.values())):
        state, errors = "a type that no table names", []
    loads_in, problem = "?", errors[0] if errors else None
    if version:
        is_old = handler.platform == "cpu" and state is not None
        loads_in = releases.loads_in(version, old_state=is_old)
        problem = releases.problem(version, *runtime, state=is_old)
    captured = c_api.COMMAND_BUFFER_COMPATIBLE
    is_captured = any(a["traits"] & captured for a in told)
    return {  # "?" or None means that the library does not say
        "name": handler.name,  # the custom call target, or the function's name
        "platform": handler.platform,  # "cpu", "cuda"
        "stages": list(answers),
        "api_version": version and releases.dots(version),  # of its FFI headers
        "traits": ["command buffer compatible"] if is_captured else [],
        "state": state,  # name of the type it keeps as state
        "loads_in": loads_in,  # the jaxlib releases that take it, in words
        "problem": problem,  # why it does not load into the running jaxlib
        "signature": str(handler.signature() or "") or None,  # one line
    }
