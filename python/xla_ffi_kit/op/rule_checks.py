"""Checks what an author's derivative rules return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar, cast

import jax

from xla_ffi_kit._check import Typed
from xla_ffi_kit.op import operand_checks
from xla_ffi_kit.op.spec import Arrays, OpSpec, flatten

_T = TypeVar("_T", bound=Typed)
Cotangents: TypeAlias = tuple[jax.Array | None, ...]


def pair(
    spec: OpSpec, what: str, expected: str, returned: object
) -> tuple[object, object]:
    """Returns both parts; TypeError if it is anything but a pair."""
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise TypeError(spec.error(what, expected, _form(returned)))
    return returned[0], returned[1]


def arrays(
    spec: OpSpec, what: str, returned: object, count: int, each: str = ""
) -> Arrays:
    """Returns an array or a tuple of them as a tuple of `count`."""
    found = flatten(returned)
    _check_each(spec, what, "an array or a tuple of arrays", found)
    _check_count(spec, what, found, count, each)
    return cast(Arrays, found)


def cotangents(
    spec: OpSpec, what: str, returned: Any, count: int, operand: str
) -> Cotangents:
    """Returns cotangents as a tuple of `count`, one per `operand`."""
    is_one = not isinstance(returned, tuple | list)
    found = cast(Cotangents, (returned,) if is_one else tuple(returned))
    given = [x for x in found if x is not None]
    _check_each(spec, what, "arrays or None", given)
    each = f", one for each {operand} (None for one without)"
    _check_count(spec, what, found, count, each)
    return found


def like(spec: OpSpec, what: str, i: int, got: _T | None, want: Typed) -> _T:
    """Returns `got`, strong; TypeError if its shape or dtype is another."""
    if got is None or (got.shape, got.dtype) != (want.shape, want.dtype):
        raise TypeError(
            spec.error(
                f"{what} {i}",
                operand_checks.type_name(want),
                got if got is None else operand_checks.type_name(got),
            )
        )
    return got if getattr(want, "weak_type", False) else strong(got)


def strong(x: _T) -> _T:
    """The same array with a strong type, as results of handlers have it.

    Another one behind it would have another dtype with a weak one.
    """
    if not isinstance(x, jax.Array) or not jax.typeof(x).weak_type:
        return x
    return cast(_T, jax.lax.convert_element_type(x, x.dtype))


def _check_each(
    spec: OpSpec, what: str, expected: str, values: Sequence[object]
) -> None:
    wrong = [x for x in values if not hasattr(x, "dtype")]
    if wrong:
        raise TypeError(spec.error(what, expected, _form(wrong[0])))


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
