"""An operation as a Python object: names, defaults, dtypes, pickling."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

from jax.typing import ArrayLike

from xla_ffi_kit import _check, _dtypes
from xla_ffi_kit._check import Typed
from xla_ffi_kit._dtypes import DType
from xla_ffi_kit.op.spec import OpSpec


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


def dtype_check(
    name: str,
    operand_names: Sequence[str],
    dtypes: Sequence[DType | Sequence[DType]],
    then: Callable[..., None] | None,
) -> Callable[..., None]:
    """A check of the operands' dtypes, before the author's own.

    Args:
      name: the operation's.
      operand_names: the operands'.
      dtypes: a dtype for all operands, or one for each, for every combination
        that the handlers take.
      then: the author's check.
    """
    where = f"{name}: dtypes"
    count = len(operand_names)
    allowed: list[list[str]] = []
    for entry in _check.sequence(where, dtypes):
        found = [dtype.name for dtype in _dtypes.parse_each(where, entry)]
        if len(found) == 1 and not isinstance(entry, list | tuple):
            found *= count
        if len(found) != count:
            raise ValueError(
                f"{where}: expected {count} in each entry, one per operand, "
                f"got {len(found)}"
            )
        allowed.append(found)
    if not allowed:
        raise ValueError(f"{where}: expected at least one, got none")

    def check(*operands: Typed, **attributes: object) -> None:
        left = allowed
        for i, operand in enumerate(operands):
            wanted = list(dict.fromkeys(entry[i] for entry in left))
            left = [entry for entry in left if entry[i] == operand.dtype.name]
            if not left:
                raise TypeError(
                    f"{name}: operand {operand_names[i]}: expected dtype "
                    f"{', '.join(wanted)}"
                    f"{f' as operand {operand_names[0]} has' if i else ''}, "
                    f"got {operand.dtype.name}"
                )
        if then is not None:
            then(*operands, **attributes)

    return check


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
