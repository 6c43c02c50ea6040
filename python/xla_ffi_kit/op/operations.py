"""The operations that a function calls."""

from __future__ import annotations

import dataclasses
import dis
import inspect
import types
from collections.abc import Iterator, Mapping
from typing import Any

from xla_ffi_kit.op.ffi_op import FfiOp


def operations_in(function: object) -> list[FfiOp[Any]]:
    """The operations that a function uses by the names of globals.

    An operation is its own only one. Functions that a function calls count, if
    they are of the same top-level package.
    """
    found: dict[int, FfiOp[Any]] = {}
    seen: set[int] = set()

    def visit(value: object) -> None:
        if callable(value):
            value = inspect.unwrap(value, stop=lambda f: isinstance(f, FfiOp))
        if isinstance(value, FfiOp):
            found[id(value)] = value
        if not isinstance(value, types.FunctionType) or id(value) in seen:
            return
        seen.add(id(value))
        for used in globals_of(value.__code__, value.__globals__):
            if isinstance(used, FfiOp):
                visit(used)
            elif _package(used) != _package(value):
                continue
            elif dataclasses.is_dataclass(used):  # a record of operations
                for part in vars(used).values():
                    visit(part)
            else:
                visit(used)

    visit(function)
    if not found:
        raise TypeError(
            "expected an operation, or a function that calls some, got "
            f"{function!r}"
        )
    return list(found.values())


def _package(value: object) -> str:
    module: str = getattr(value, "__module__", None) or ""
    return module.partition(".")[0]


def globals_of(
    code: types.CodeType, names: Mapping[str, object]
) -> Iterator[object]:
    """Of the globals `names` those that code, and code inside it, loads."""
    for instruction in dis.get_instructions(code):
        name = instruction.argval
        if instruction.opname == "LOAD_GLOBAL" and name in names:
            yield names[name]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from globals_of(constant, names)
