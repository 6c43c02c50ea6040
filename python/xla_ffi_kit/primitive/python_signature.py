"""An operation as a Python function: names, defaults, pickling."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

from jax.typing import ArrayLike

from xla_ffi_kit.primitive.spec import OpSpec


def resemble(op: OpSpec) -> None:
    """Gives the operation its function's name, signature and docstring."""
    function = op.reference or op.results
    named = function
    while isinstance(named, functools.partial):
        named = named.func
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        value = getattr(named, name, None)
        if value is not None:
            setattr(op, name, value)
    own = inspect.Parameter(
        "implementation", inspect.Parameter.KEYWORD_ONLY, default=None
    )
    # Operands have no defaults.
    shown = [
        p.replace(default=p.empty) if p.name in op.operand_names else p
        for p in op.signature.parameters.values()
    ]
    op.__signature__ = op.signature.replace(  # type: ignore[attr-defined]
        parameters=[*shown, own]
    )
    op.__wrapped__ = function  # type: ignore[attr-defined]


def defaults(reference: inspect.Signature) -> dict[str, object]:
    """The attributes that a call may leave out, and their values."""
    return {
        p.name: p.default
        for p in reference.parameters.values()
        if p.kind is p.KEYWORD_ONLY and p.default is not p.empty
    }


def operands_by_name(
    op: OpSpec, operands: Sequence[ArrayLike], keywords: dict[str, Any]
) -> tuple[ArrayLike, ...]:
    """All operands; takes those out of `keywords` that are passed by name."""
    missing = op.operand_names[len(operands) :]
    absent = [name for name in missing if name not in keywords]
    if absent or len(operands) > len(op.operand_names):
        message = (
            f"{op.name}: operands: expected {len(op.operand_names)} "
            f"({', '.join(op.operand_names)}), got {len(operands)}"
        )
        parameters = op.signature.parameters
        empty = inspect.Parameter.empty
        given = [n for n in absent if parameters[n].default is not empty]
        if given:
            message += (
                f"; an operand has no default, so pass {', '.join(given)}, or "
                f"make it a keyword-only attribute: {op.with_keywords(given)}"
            )
        raise TypeError(message)
    return (*operands, *(keywords.pop(name) for name in missing))


def reduce(op: OpSpec) -> str | tuple[Callable[..., object], tuple[str, str]]:
    """For pickle: where the operation is a global, not what it is made of."""
    # Its reference may be another module's.
    own = sys.modules.get(op.__module__)
    for module in (own, *list(sys.modules.values())):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is not op or module is None:
                continue
            return name if module is own else (_load, (module.__name__, name))
    raise TypeError(
        f"{op.name}: cannot be pickled: expected it to be a global of a "
        "module, by which another process finds it"
    )


def _load(module: str, name: str) -> object:
    return getattr(importlib.import_module(module), name)
