"""Checks what an author's derivative rules return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar, cast

import jax

from xla_ffi_kit._check import Typed
from xla_ffi_kit.op.operands import strong, type_name
from xla_ffi_kit.op.spec import Arrays, OpSpec, flatten

_T = TypeVar("_T", bound=Typed)
Cotangents: TypeAlias = tuple[jax.Array | None, ...]


def pair(
    spec: OpSpec, what: str, expected: str, returned: object
) -> tuple[object, object]:
    """Both parts; TypeError if it is anything but a pair."""
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise TypeError(spec.error(what, expected, _form(returned)))
    return returned[0], returned[1]


def arrays(
    spec: OpSpec, what: str, returned: object, count: int, each: str = ""
) -> Arrays:
    """An array or a tuple of them as a tuple of `count`."""
    results = flatten(returned)
    _check_each(spec, what, "an array or a tuple of arrays", results)
    _check_count(spec, what, results, count, each)
    return cast(Arrays, results)


def cotangents(
    spec: OpSpec, what: str, returned: Any, count: int, operand: str
) -> Cotangents:
    """Cotangents as a tuple of `count`, one per `operand`."""
    is_one = not isinstance(returned, tuple | list)
    slopes = cast(Cotangents, (returned,) if is_one else tuple(returned))
    arrays = [x for x in slopes if x is not None]
    _check_each(spec, what, "arrays or None", arrays)
    each = f", one for each {operand} (None for one without)"
    _check_count(spec, what, slopes, count, each)
    return slopes


def like(spec: OpSpec, what: str, i: int, got: _T | None, type_: Typed) -> _T:
    """`got`, strong; TypeError if its shape or dtype is not that of `type_`."""
    if got is None or (got.shape, got.dtype) != (type_.shape, type_.dtype):
        text = got if got is None else type_name(got)
        raise TypeError(spec.error(f"{what} {i}", type_name(type_), text))
    return got if getattr(type_, "weak_type", False) else strong(got)


def _check_each(
    spec: OpSpec, what: str, expected: str, values: Sequence[object]
) -> None:
    for value in values:
        if not hasattr(value, "dtype"):
            raise TypeError(spec.error(what, expected, _form(value)))


def _check_count(
    spec: OpSpec, what: str, values: Sequence[object], count: int, each: str
) -> None:
    if len(values) != count:
        raise TypeError(spec.error(what, f"{count}{each}", len(values)))


def _form(value: object) -> str:
    """A value, for a message: what an array holds does not matter."""
    if hasattr(value, "dtype"):
        return "an array"
    if isinstance(value, tuple | list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return repr(value)
