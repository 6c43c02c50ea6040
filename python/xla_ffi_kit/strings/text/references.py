"""Reads names and the types of attributes from a reference."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import cast

import numpy as np

from xla_ffi_kit.compile import cpp
from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.op.spec import AttributeType


def name_of(reference: Callable[..., object], default: str = "") -> str:
    """Returns the operation's name, which is the reference's.

    A lambda has none: its operation gets `default`.
    """
    while isinstance(reference, functools.partial):
        reference = reference.func
    name = getattr(reference, "__name__", type(reference).__name__)
    return name if name.isidentifier() else default


def names(
    reference: Callable[..., object], function: str | None, what: str
) -> tuple[str, str]:
    """The names of a function in C++ and of its operation.

    Args:
      reference: the function that the author decorated. Its name is that of
        both, but a lambda has none: its operation has the C++ function's.
      function: the C++ function's name if it is another one.
      what: what the function is, for an error.
    """
    symbol = name_of(reference) if function is None else function
    name = name_of(reference, symbol.rpartition("::")[2] or "lambda")
    if not cpp.is_function(symbol):
        raise BuildError(
            f"{name}: function: expected the name of {what}, got {symbol!r}; "
            "pass it as function="
        )
    return symbol, name


def parameter_names(
    reference: Callable[..., object],
) -> tuple[tuple[str, ...], dict[str, object]]:
    """Names of the operands, and the attributes with their defaults."""
    parameters = inspect.signature(reference).parameters.values()
    keywords = {
        p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY
    }
    operands = [p for p in parameters if p.name not in keywords]
    for p in operands:
        if p.kind is p.VAR_KEYWORD:
            raise BuildError(
                f"{name_of(reference, 'lambda')}: {p}: expected attributes by "
                "name, as those of the C++ function are: *, first, second"
            )
        if p.default is None or p.kind is p.VAR_POSITIONAL:
            raise BuildError(
                f"{name_of(reference, 'lambda')}: operand {p.name}: expected "
                "operands that every call has, as a kernel in a string takes "
                f"them, got {p}"
            )
    return tuple(p.name for p in operands), keywords


def attribute_types(
    name: str,
    reference: Callable[..., object],
    declared: Mapping[str, AttributeType],
) -> dict[str, AttributeType]:
    """Returns the attributes' types, declared or those of the defaults.

    One that is declared as None is none of the handler's.
    """
    return {
        attribute: declared[attribute]
        if attribute in declared
        else type_of_default(name, attribute, default)
        for attribute, default in parameter_names(reference)[1].items()
        if declared.get(attribute, str) is not None
    }


def type_of_default(
    name: str, attribute: str, default: object
) -> AttributeType:
    """Returns the type of an attribute, given its default value."""
    for kind, dtype in (
        (bool, np.bool_),
        (int, np.int64),
        (float, np.float64),
        (str, str),
    ):
        if isinstance(default, kind):
            return dtype
    if isinstance(default, np.generic):
        return default.dtype
    if isinstance(default, tuple | list) and default:
        element = type_of_default(name, attribute, default[0])
        return cast(AttributeType, (element,))
    raise BuildError(
        f"{name}: attribute {attribute}: expected a default that is a real "
        "number, a bool, a string or a sequence of numbers, or its type in "
        f"`attributes`, got {default!r}"
    )
