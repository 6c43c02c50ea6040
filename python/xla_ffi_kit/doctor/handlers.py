"""Finds the handlers of any library, and asks them for their metadata.

A library of the kit has a table of them. Those of other projects are capsules
of a Python module or exported functions, in whichever language: a function is a
handler if it answers XLA's metadata call, which runs nothing. What has no table
is asked in a child process, because it may be anything else.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import faulthandler
import importlib.machinery
import importlib.util
import json
import os
import re
import resource
import signal
import tempfile
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import jaxlib

from xla_ffi_kit._jax_hooks import Registration
from xla_ffi_kit.library import c_api, registration, releases, rows
from xla_ffi_kit.library.handler_library import HandlerLibrary
from xla_ffi_kit.library.rows import STAGES, Handler

TABLE = "handler table"
_SECONDS = 1  # that a function may take; metadata takes microseconds
_PLATFORMS = rows.PLATFORMS | {"gpu": "cuda"}  # JAX's own name of it
# The docstring of a pybind11 or nanobind function without arguments that may
# return capsules; and what Python shows of others' parameters, in Rust or C.
_RETURNS = re.compile(r"\w+\(\) -> (.*[Cc]apsule|[Dd]ict|object)")
_NO_PARAMETERS = ("()", "($module)", "($module, /)")


@dataclasses.dataclass(frozen=True)
class Row:
    """A handler, and what it answers."""

    handler: Handler
    version: tuple[int, int] | None  # of its FFI headers, if it says it
    problem: str | None  # why it does not load into the running jaxlib
    # Name, platform, stages, version, traits, state, the releases that load it;
    # "?" for what is not known.
    cells: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Contents:
    """What a library offers."""

    kind: str  # how its handlers were found, in words
    rows: list[Row]
    other_exports: list[str]  # neither handler nor table
    glibc: str | None  # the oldest that it loads with


def of_library(library: HandlerLibrary) -> Contents:
    """The handlers of a library, which is loaded, in each way to offer them.

    Raises HandlerLibraryError if it cannot be loaded.
    """
    if not library.is_file:
        return Contents("capsules", _ask(library.handlers.values()), [], None)
    symbols = library.exports()
    module = next(filter(_is_module, symbols.functions), "")
    if c_api.TABLE_SYMBOL in symbols.functions:
        kind, handlers = TABLE, _of_table(library)
    elif module and (capsules := _of_module(module, library.path)):
        kind, handlers = "Python module", capsules
    else:
        kind = "exported functions"
        handlers = _of_functions(library, symbols.functions)
    entries = {at for row in handlers for at in row.handler.stages.values()}
    others = symbols.objects + [
        name
        for name in symbols.functions
        if name not in (c_api.TABLE_SYMBOL, module)
        and _address(library, name) not in entries
    ]
    # C names first: they are the ones nobody meant to export.
    others.sort(key=lambda name: (name.startswith("_Z"), name))
    handlers.sort(key=lambda row: (row.handler.name, row.handler.platform))
    return Contents(kind, handlers, others, symbols.glibc)


def of_registrations(registered: Iterable[Registration]) -> list[Row]:
    """The handlers of a package, by what it has registered with XLA."""
    return _ask(
        Handler(
            name,
            _PLATFORMS.get(platform, platform),
            # A custom call of the older interface would run.
            _stages(capsules) if api_version else {},
        )
        for name, capsules, platform, api_version in registered
    )


# --- Each way to offer handlers ----------------------------------------------


def _is_module(symbol: str) -> bool:
    return symbol.startswith("PyInit_")


def _of_table(library: HandlerLibrary) -> list[Row]:
    names = {}
    # A handler whose type has no number answers with an error, so that each
    # gets one, far from XLA's, until XLA gives it another.
    for number, state_type in enumerate(library.types, start=1 << 32):
        slot = ctypes.c_int64.from_address(state_type.type_id)
        slot.value = slot.value or number
        names[slot.value] = state_type.name
    return _ask(library.handlers.values(), names)


def _of_module(symbol: str, path: str) -> list[Row]:
    name = symbol.removeprefix("PyInit_")
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return _ask(
        Handler(target, "?", stages)
        for target, stages in _capsules(vars(module))
    )


def _capsules(
    members: Mapping[str, object],
) -> Iterator[tuple[str, dict[str, int]]]:
    """The names of capsules, and the addresses of their stages.

    They are members of a module or its submodules, values of dictionaries, or
    what functions without parameters return.
    """
    for name, value in members.items():
        if _may_return_capsules(value):
            with contextlib.suppress(Exception):  # whatever else it is for
                value = value()  # type: ignore[operator]
        if isinstance(value, types.ModuleType):
            # A submodule, and nothing that the module imports.
            if value.__name__.startswith(f"{members.get('__name__')}."):
                yield from _capsules(vars(value))
        elif stages := _stages(value):
            yield str(name), stages
        elif isinstance(value, Mapping) and name != "__builtins__":
            yield from _capsules(value)


def _may_return_capsules(value: object) -> bool:
    if not callable(value) or isinstance(value, type):
        return False
    parameters = getattr(value, "__text_signature__", None)
    text = getattr(value, "__doc__", None) or ""
    return parameters in _NO_PARAMETERS or bool(_RETURNS.match(text))


def _stages(capsules: object) -> dict[str, int]:
    """Stage -> address, of a capsule or a mapping; empty for anything else."""
    if not isinstance(capsules, Mapping):
        capsules = {"execute": capsules}
    stages = {s: capsules[s] for s in STAGES if capsules.get(s) is not None}
    try:
        return {stage: rows.address_of(c) for stage, c in stages.items()}
    except TypeError:
        return {}


def _of_functions(library: HandlerLibrary, names: Sequence[str]) -> list[Row]:
    answers = _ask(
        Handler(name, "?", {"?": address})
        for name in names
        if not name.startswith("_")  # C++ names, and the linker's own
        and (address := _address(library, name))
    )
    return [row for row in answers if row.problem != _NO_ANSWER]


def _address(library: HandlerLibrary, name: str) -> int:
    """The address of a function; 0 for an older version of one."""
    try:
        function = library.function(name)
    except AttributeError:
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


# --- Metadata ----------------------------------------------------------------


def _ask(
    handlers: Iterable[Handler], types: Mapping[int, str] | None = None
) -> list[Row]:
    """Asks for metadata; `types` has the names of state types by number."""
    handlers = [*handlers]
    answers = iter(_answers([a for h in handlers for a in h.stages.values()]))
    return [
        _row(handler, [next(answers) for _ in handler.stages], types or {})
        for handler in handlers
    ]


# The metadata of one function, and the error that it made.
_Answer: TypeAlias = tuple[c_api.Metadata, str]
_NOTHING = c_api.Metadata((0, 0), 0, 0)
_NO_ANSWER = "does not answer XLA's metadata call"
_UNREGISTERED = "must be registered"  # in the error of XLA's header


def _row(
    handler: Handler, answers: Sequence[_Answer], types: Mapping[int, str]
) -> Row:
    version = max((a.api_version for a, _ in answers), default=(0, 0))
    errors = [error for _, error in answers if error]
    numbers = [a.state_type_id for a, _ in answers if a.state_type_id]
    state = types.get(numbers[0], f"type {numbers[0]}") if numbers else "-"
    if any(_UNREGISTERED in error for error in errors):
        state = "unregistered"
    problem = next((e for e in errors if _UNREGISTERED not in e), None)
    stages = " ".join(handler.stages) or "api_version=0"
    row = [handler.name, handler.platform, stages]
    if any(version):
        keeps_state = state != "-"
        jaxlib_version = jaxlib.__version__
        spoken = registration.runtime_api_version()
        problem = problem or releases.problem(
            version, jaxlib_version, spoken, state=keeps_state
        )
        traits = c_api.COMMAND_BUFFER_COMPATIBLE
        captured = any(a.traits & traits for a, _ in answers)
        row += [
            releases.dots(version),
            "command buffer compatible" if captured else "-",
            state,
            releases.loads_in(version, state=keeps_state),
        ]
        return Row(handler, version, problem, tuple(row))
    if answers and not errors:
        problem = _NO_ANSWER
    return Row(handler, None, problem, (*row, "?", "?", state, "?"))


def _answers(addresses: Sequence[int]) -> list[_Answer]:
    """Asks each function. What is none may crash, or go on for ever.

    Then another child process asks those behind it.
    """
    answers: list[_Answer] = []
    with tempfile.TemporaryDirectory() as folder:

        def ask(emit: Emit) -> None:
            _find_nothing(folder)
            for address in addresses[len(answers) :]:
                signal.alarm(_SECONDS)
                metadata, returned, error = c_api.metadata_call(address)
                if returned and not error and not any(metadata.api_version):
                    # `void* name()` returns the address of the handler.
                    metadata, _, error = c_api.metadata_call(returned)
                emit((dataclasses.astuple(metadata), error))

        while len(answers) < len(addresses):
            for (version, *numbers), error in run_apart(ask)[0]:
                metadata = c_api.Metadata(tuple(version), *numbers)
                answers.append((metadata, error))
            if len(answers) < len(addresses):
                answers.append((_NOTHING, ""))
    return answers


def _find_nothing(folder: str) -> None:
    """Lets what is called by mistake find no file, process or terminal."""
    os.setsid()
    os.chdir(folder)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


# --- Child processes ---------------------------------------------------------

Emit: TypeAlias = Callable[[object], object]


def run_apart(work: Callable[[Emit], None]) -> tuple[list[Any], int]:
    """Runs `work(emit)` in a child process, which may crash.

    `signal.alarm` limits its time.

    Returns:
      The values that it has emitted, as JSON has them, and its exit status; the
      negative number of a signal that has ended it.
    """
    readable, writable = os.pipe()
    with warnings.catch_warnings():
        # JAX and Python warn of threads, of which the child waits for none.
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        faulthandler.disable()  # the parent says how it ended
        try:
            work(lambda v: os.write(writable, f"{json.dumps(v)}\n".encode()))
        finally:
            os._exit(0)  # without what a library does at the end
    os.close(writable)
    with open(readable, encoding="utf-8") as lines:
        values = [json.loads(line) for line in lines]
    return values, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
