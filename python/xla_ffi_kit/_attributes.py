"""Static attributes: checked, converted and hashed by value."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from xla_ffi_kit import _jax_hooks

# What an attribute may be declared as: a NumPy scalar type, `str`, a NumPy
# scalar type in a one-tuple for an array, or a mapping for a dictionary.
AttributeType = Any


@dataclasses.dataclass(frozen=True)
class AttributeValues:
    """The attributes of one call, hashable, equal if bit for bit equal.

    Plain numbers would not do as part of a compilation key: 0.0 == -0.0, and
    NaN differs from itself.
    """

    items: dict[str, Any] = dataclasses.field(compare=False)
    key: str

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return self.key

    @functools.cached_property
    def for_reference(self) -> dict[str, Any]:
        """As Python values, so that they do not widen the reference."""
        return {k: _plain(v) for k, v in self.items.items()}


def check_types(op: str, types: Mapping[str, AttributeType]) -> dict[str, Any]:
    """Normalizes an operation's declared attribute types."""
    return {name: _normalize(op, name, t) for name, t in types.items()}


def _normalize(op: str, name: str, declared: AttributeType) -> Any:
    if declared is str:
        return str
    if isinstance(declared, Mapping):
        return {
            k: _normalize(op, f"{name}.{k}", t) for k, t in declared.items()
        }
    if isinstance(declared, tuple) and len(declared) == 1:
        return (np.dtype(declared[0]),)
    try:
        return np.dtype(declared)
    except TypeError:
        raise TypeError(
            f"{op}: attribute {name}: expected a NumPy scalar type, str, a "
            f"one-tuple of a scalar type or a mapping, got {declared!r}"
        ) from None


def bind(op: str, types: Mapping[str, Any], given: Mapping) -> AttributeValues:
    """Checks the attributes of a call against their declared types."""
    if given.keys() != types.keys():
        raise TypeError(
            f"{op}: attributes: expected {_names(types)}, got {_names(given)}"
        )
    items = {n: _convert(op, n, types[n], given[n]) for n in sorted(types)}
    return AttributeValues(items, _key(items))


def _names(names: Mapping[str, Any]) -> str:
    return ", ".join(sorted(names)) or "none"


def _convert(op: str, name: str, kind: Any, value: Any) -> Any:
    if _jax_hooks.is_traced(value):
        raise TypeError(
            f"{op}: attribute {name}: expected a static value, got a traced "
            "one; pass it as a Python number (jit: static_argnames)"
        )
    if kind is str:
        if not isinstance(value, str):
            raise _mismatch(op, name, "a string", value)
        return value
    if isinstance(kind, dict):
        if not isinstance(value, Mapping) or value.keys() != kind.keys():
            raise _mismatch(op, name, f"a mapping of {_names(kind)}", value)
        return {
            k: _convert(op, f"{name}.{k}", t, value[k]) for k, t in kind.items()
        }
    if isinstance(kind, tuple):
        return _array(op, name, kind[0], value)
    return _scalar(op, name, kind, value)


def _scalar(op: str, name: str, dtype: Any, value: Any) -> Any:
    expected = f"a {dtype.name} number"
    if isinstance(value, bool | np.bool_):
        if dtype.kind != "b":
            raise _mismatch(op, name, expected, value)
        return np.bool_(value)
    accepted: tuple[Any, ...] = (int, np.integer)
    if dtype.kind in "fc":
        accepted += (float, np.floating)
    if dtype.kind == "c":
        accepted += (complex, np.complexfloating)
    if dtype.kind == "b" or not isinstance(value, accepted):
        raise _mismatch(op, name, expected, value)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not limits.min <= int(value) <= limits.max:
            raise ValueError(
                f"{op}: attribute {name}: expected {dtype.name}, "
                f"{limits.min} to {limits.max}, got {int(value)}"
            )
    return dtype.type(value)


def _array(op: str, name: str, dtype: np.dtype, value: Any) -> np.ndarray:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise _mismatch(op, name, f"a sequence of {dtype.name}", value)
    items = [_scalar(op, f"{name}[{i}]", dtype, v) for i, v in enumerate(value)]
    return np.array(items, dtype)


def _mismatch(op: str, name: str, expected: str, value: Any) -> TypeError:
    return TypeError(
        f"{op}: attribute {name}: expected {expected}, got {value!r} "
        f"({type(value).__name__})"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    return value.item() if isinstance(value, np.generic) else value


def _key(items: dict[str, Any]) -> str:
    # repr of a Python float is exact and tells 0.0 from -0.0.
    return repr({k: _plain(v) for k, v in items.items()})
