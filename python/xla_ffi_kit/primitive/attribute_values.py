"""Static attributes: checked, converted and hashed by value."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import jax
import numpy as np

from xla_ffi_kit import _check, _dtypes, _jax_hooks
from xla_ffi_kit._check import Typed
from xla_ffi_kit.primitive.spec import AttributeType, OpSpec

_DType: TypeAlias = np.dtype[np.generic]
_Kind: TypeAlias = type[str] | _DType | tuple[_DType] | dict[str, "_Kind"]

_EXPECTED = (
    "a NumPy scalar type, str, a one-tuple of a scalar type or a mapping"
)
_MOST = 2**63 - 1
_REMEMBERED = 1024  # attribute values per operation


class AttributeValues:
    """The attributes of one call, hashable, equal if bit for bit equal.

    Plain numbers would not do as part of a compilation key: 0.0 == -0.0, and
    NaN differs from itself.
    """

    def __init__(
        self, items: Mapping[str, object], insists: bool = False
    ) -> None:
        self.items = items  # by name, as NumPy values of the declared types
        self.insists = insists  # on the handler: it is another program
        # By name, as Python values, which do not widen a result.
        self.for_reference = {k: _plain(v) for k, v in items.items()}
        self._key = insists, _key(items)
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, AttributeValues) and self._key == other._key
        )

    def __repr__(self) -> str:
        insists = "handler, " if self.insists else ""
        return f"{insists}{self.for_reference}"

    @functools.cached_property
    def insisting(self) -> AttributeValues:
        """The same for a call that insists on the handler."""
        return AttributeValues(self.items, insists=True)


def _key(value: object) -> tuple[object, ...]:
    """What is equal for the same bits of the same type, and for no others."""
    if isinstance(value, Mapping):
        return tuple((name, _key(v)) for name, v in value.items())
    if isinstance(value, np.generic | np.ndarray):
        return value.dtype, value.tobytes()
    # A subclass of str may print, and even compare, as it likes.
    assert isinstance(value, str)
    return type(value), str.__str__(value)


def _normalize(op: str, name: str, declared: AttributeType) -> _Kind:
    if declared is str:
        return str
    if isinstance(declared, Mapping):
        return {
            k: _normalize(op, f"{name}.{k}", t) for k, t in declared.items()
        }
    where = f"{op}: attribute {name}"
    if isinstance(declared, tuple) and len(declared) == 1:
        return (_dtypes.parse(where, declared[0], _EXPECTED),)
    return _dtypes.parse(where, declared, _EXPECTED)


class Binder:
    """Checks the attributes of an operation's calls against their types.

    Remembers what it has seen: an eager call is short, and the check of one
    number would be a third of it.
    """

    def __init__(
        self,
        op: str,
        types: Mapping[str, AttributeType],
        defaults: Mapping[str, object],
    ) -> None:
        self._op = op
        self._defaults = defaults
        self._types = {n: _normalize(op, n, t) for n, t in types.items()}
        self._seen: dict[object, AttributeValues] = {}

    def __call__(self, given: Mapping[str, object]) -> AttributeValues:
        """The checked attributes; TypeError or ValueError names what is not."""
        key = tuple((k, type(v), v) for k, v in given.items() if _is_plain(v))
        if len(key) == len(given):
            found = self._seen.get(key)
            if found is not None:
                return found
        values = self._check({**self._defaults, **given})
        if len(key) == len(given) and len(self._seen) < _REMEMBERED:
            self._seen[key] = values
        return values

    def _check(self, given: Mapping[str, object]) -> AttributeValues:
        op, types = self._op, self._types
        if given.keys() != types.keys():
            raise TypeError(
                f"{op}: attributes: expected {_names(types)}, got "
                f"{_names(given)}"
            )
        return AttributeValues(
            {n: _convert(op, n, types[n], given[n]) for n in sorted(types)}
        )


def from_shapes(
    spec: OpSpec, operands: Sequence[Typed], attributes: AttributeValues
) -> dict[str, object]:
    """The attributes that follow from the shapes of a call."""
    if spec.shape_attributes is None:
        return {}
    where = "shape_attributes"
    if not _check.is_static(*(x.shape for x in operands)):
        raise TypeError(
            spec.error(where, "sizes that are known", "symbolic ones")
        )
    types = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands]
    found = spec.shape_attributes(*types, **attributes.for_reference)
    if not isinstance(found, Mapping):
        raise TypeError(spec.error(where, "a mapping", repr(found)))
    unnamed = [name for name in found if not isinstance(name, str)]
    if unnamed:
        raise TypeError(spec.error(where, "names", repr(unnamed[0])))
    both = sorted(attributes.items.keys() & found.keys())
    if both:
        expected = "no name that `attributes` has"
        raise ValueError(spec.error(where, expected, ", ".join(both)))
    return {k: _as_given(spec, k, v) for k, v in found.items()}


_PYTHONS = {bool: np.bool_, int: np.int64, float: np.float64}


def _as_given(spec: OpSpec, name: str, value: object) -> object:
    """A computed attribute, of its own type."""
    if isinstance(value, Mapping):
        return {k: _as_given(spec, f"{name}.{k}", v) for k, v in value.items()}
    if type(value) in _PYTHONS:
        return _PYTHONS[type(value)](value)
    if not isinstance(value, np.generic | np.ndarray | str):
        expected = (
            "a NumPy scalar or array, a string, bool, int, float or a mapping "
            "of such"
        )
        what = f"shape_attributes: {name}"
        raise TypeError(spec.error(what, expected, repr(value)))
    return value


def _is_plain(value: object) -> bool:
    # Not 0.0, which with -0.0 would be one key; nor NaN, which is never found.
    return type(value) in (int, str) or (
        type(value) is float and value != 0 and value == value
    )


def _names(names: Mapping[str, object]) -> str:
    return ", ".join(sorted(names)) or "none"


def _convert(op: str, name: str, kind: _Kind, value: object) -> object:
    if _jax_hooks.is_traced(value):
        raise TypeError(
            f"{op}: attribute {name}: expected a static value, got a traced "
            "one; pass it as a Python number (jit: static_argnames)"
        )
    if isinstance(kind, type):
        if not isinstance(value, str):
            raise _mismatch(op, name, "a string", value)
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{op}: attribute {name}: expected characters, got the "
                f"surrogate {value[error.start]!r}"
            ) from None
        return value
    if isinstance(kind, dict):
        if not isinstance(value, Mapping) or value.keys() != kind.keys():
            raise _mismatch(op, name, f"a mapping of {_names(kind)}", value)
        return {
            k: _convert(op, f"{name}.{k}", t, value[k]) for k, t in kind.items()
        }
    if isinstance(kind, tuple):
        return _array(op, name, kind[0], value)
    found = _scalar(op, name, kind, value)
    if isinstance(found, np.uint64) and found > _MOST:
        raise ValueError(
            f"{op}: attribute {name}: expected at most {_MOST}, since JAX "
            f"takes single numbers as signed ones, got {found}"
        )
    return found


def _scalar(op: str, name: str, dtype: _DType, value: object) -> object:
    article = "an" if dtype.name.startswith("i") else "a"
    expected = f"{article} {dtype.name} scalar"
    if isinstance(value, bool | np.bool_):
        if dtype.kind != "b":
            raise _mismatch(op, name, expected, value)
        return np.bool_(value)
    accepted: tuple[type, ...] = (int, np.integer)
    if dtype.kind in "fc":
        accepted += (float, np.floating)
    if dtype.kind == "c":
        accepted += (complex, np.complexfloating)
    if dtype.kind == "b" or not isinstance(value, accepted):
        raise _mismatch(op, name, expected, value)
    if dtype.kind in "iu" and isinstance(value, int | np.integer):
        limits = np.iinfo(dtype.name)
        if not limits.min <= int(value) <= limits.max:
            raise ValueError(
                f"{op}: attribute {name}: expected {dtype.name}, "
                f"{limits.min} to {limits.max}, got {int(value)}"
            )
    return dtype.type(value)


def _array(op: str, name: str, dtype: _DType, value: object) -> object:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise _mismatch(op, name, f"a sequence of {dtype.name}", value)
    items = [_scalar(op, f"{name}[{i}]", dtype, v) for i, v in enumerate(value)]
    return np.array(items, dtype)


def _mismatch(op: str, name: str, expected: str, value: object) -> TypeError:
    return TypeError(
        f"{op}: attribute {name}: expected {expected}, got {value!r} "
        f"({type(value).__name__})"
    )


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    return value.item() if isinstance(value, np.generic) else value
