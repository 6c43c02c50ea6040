"""An operation as a Python function: names, defaults, pickling."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import Any

from jax.typing import ArrayLike

from xla_ffi_kit.primitive.spec import OpSpec


def resemble(op: OpSpec) -> None:
    """Gives the operation its function's name, signature and docstring."""
    function = op.reference or op.results
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        value = getattr(function, name, None)
        if value is not None:
            setattr(op, name, value)
    own = inspect.Parameter(
        "implementation", inspect.Parameter.KEYWORD_ONLY, default=None
    )
    op.__signature__ = op.signature.replace(  # type: ignore[attr-defined]
        parameters=[*op.signature.parameters.values(), own]
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
    if len(operands) > len(op.operand_names) or not all(
        name in keywords for name in missing
    ):
        raise TypeError(
            f"{op.name}: operands: expected {len(op.operand_names)} "
            f"({', '.join(op.operand_names)}), got {len(operands)}"
        )
    return (*operands, *(keywords.pop(name) for name in missing))


def import_path(op: OpSpec) -> str:
    """For pickle: the name that the operation has in its module."""
    module = sys.modules.get(op.__module__)
    for name, value in vars(module).items() if module else ():
        if value is op:
            return name
    raise TypeError(
        f"{op.name}: cannot be pickled: expected it to be a global of the "
        f"module {op.__module__}, where its reference is"
    )
