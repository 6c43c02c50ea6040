"""Static attributes: checked, converted and hashed by value."""

from __future__ import annotations

import contextlib
import difflib
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import jax
import numpy as np

from xla_ffi_kit import _check, _dtypes, _jax_hooks
from xla_ffi_kit._check import Typed
from xla_ffi_kit.op.spec import AttributeType, OpSpec, message

_DType: TypeAlias = np.dtype[np.generic]
# A declared type, parsed; None is not a handler's.
Kind: TypeAlias = type[str] | _DType | tuple[_DType] | dict[str, "Kind"] | None

_EXPECTED = (
    "a NumPy scalar type, str, a one-tuple of a scalar type or a mapping"
)
# By their short names; XLA refuses others when a program is compiled.
_WITHOUT = ("float16", "bfloat16", *_dtypes.COMPLEX)
_SCALARS = {k: v for k, v in _dtypes.SHORT_NAMES.items() if v not in _WITHOUT}
_ELEMENTS = {k: v for k, v in _SCALARS.items() if v != "bool"}
# Authors of strings write `k=3`, and may not think of C++.
_FRACTIONS = (
    "; a string of C++ has the type from the default: write that with a "
    "point, such as 3.0, to pass fractions"
)
_MOST = 2**63 - 1
_REMEMBERED = 1024  # attribute values per operation


class AttributeValues:
    """The attributes of one call, hashable, equal if bit for bit equal.

    Plain numbers would not do as part of a compilation key: 0.0 == -0.0, and
    NaN differs from itself.
    """

    def __init__(
        self,
        items: Mapping[str, object],
        others: Mapping[str, object],
        *,
        x64: bool,
        insists: bool = False,
    ) -> None:
        self.items = items  # by name, as NumPy values of the declared types
        self._others = others  # those that handlers do not get
        self.insists = insists  # on the handler: it is another program
        # JAX's setting where the call was traced. It may be lowered elsewhere.
        self.x64 = x64
        both = {**items, **others}
        # By name, as Python values, which do not widen a result.
        self.for_reference = {k: _plain(v) for k, v in both.items()}
        self._key = insists, x64, _key(both)
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
        return AttributeValues(
            self.items, self._others, x64=self.x64, insists=True
        )


def _key(value: object) -> tuple[object, ...]:
    """What is equal for the same bits of the same type, and for no others."""
    if isinstance(value, Mapping):
        return tuple((name, _key(v)) for name, v in value.items())
    if isinstance(value, np.generic | np.ndarray):
        return value.dtype, value.tobytes()
    if isinstance(value, float):
        return type(value), value.hex()
    # (1,) == (True,) == (1.0,), but a reference may tell them apart.
    if isinstance(value, tuple):
        return type(value), tuple(map(_key, value))
    return type(value), value


def kind_of(op: str, name: str, declared: AttributeType) -> Kind:
    """A declared type as `Binder` uses it; TypeError if it is none."""
    if declared is None or declared is str:
        return declared
    if isinstance(declared, Mapping):
        return {k: kind_of(op, f"{name}.{k}", t) for k, t in declared.items()}
    scalar: object = declared
    if isinstance(declared, tuple) and len(declared) == 1:
        scalar = declared[0]
    is_array = scalar is not declared
    where = f"{op}: attribute {name}"
    dtype = _dtypes.parse(where, scalar, _EXPECTED)
    names = _ELEMENTS if is_array else _SCALARS
    if dtype.name not in names.values():
        raise TypeError(
            f"{where}: expected {'an array of ' if is_array else ''}one of "
            f"{', '.join(names)}, which XLA gives handlers, got {dtype.name}"
        )
    return (dtype,) if is_array else dtype


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
        without_value: Sequence[str] = (),
    ) -> None:
        self._op = op
        self._defaults = defaults
        self._without_value = without_value  # whose default None is none
        self._types = {n: kind_of(op, n, t) for n, t in types.items()}
        self._seen: dict[object, AttributeValues] = {}

    def __call__(self, arguments: Mapping[str, object]) -> AttributeValues:
        """The checked attributes; TypeError or ValueError names what is not."""
        x64: bool = jax.config.jax_enable_x64  # type: ignore[attr-defined]
        plain = tuple(
            (k, type(v), v) for k, v in arguments.items() if _is_plain(v)
        )
        key = x64, plain
        if len(plain) == len(arguments):
            values = self._seen.get(key)
            if values is not None:
                return values
        values = self._check({**self._defaults, **arguments}, x64)
        if len(plain) == len(arguments) and len(self._seen) < _REMEMBERED:
            self._seen[key] = values
        return values

    def _check(
        self, arguments: Mapping[str, object], x64: bool
    ) -> AttributeValues:
        op, types = self._op, self._types
        if arguments.keys() != types.keys():
            got = _names(arguments) + _misspelled(arguments, types)
            for name in self._without_value:
                if name not in arguments:
                    got += (
                        f"; {name} has the default None, which is no value for "
                        "a handler, so pass it"
                    )
            raise TypeError(message(op, "attributes", _names(types), got))
        values = {
            n: _convert(op, n, types[n], arguments[n]) for n in sorted(types)
        }
        others = {n for n in types if types[n] is None}
        return AttributeValues(
            {n: value for n, value in values.items() if n not in others},
            {n: value for n, value in values.items() if n in others},
            x64=x64,
        )


def from_shapes(
    spec: OpSpec, operands: Sequence[Typed], attributes: AttributeValues
) -> dict[str, object]:
    """The attributes that follow from the shapes of a call."""
    if spec.advanced.shape_attributes is None:
        return {}
    if not _check.is_static(*(x.shape for x in operands)):
        expected = "sizes that are known"
        raise TypeError(
            spec.error("shape_attributes", expected, "symbolic ones")
        )
    types = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands]
    return _computed(spec, types, attributes)


class _Unknown:
    """The size of an axis, for a function that must not look at it."""

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("the size is not known")

    __eq__ = __bool__ = __repr__ = _refuse


def depend_on_rows(
    spec: OpSpec, operands: Sequence[Typed], attributes: AttributeValues
) -> bool:
    """Whether the computed ones may be others for a part of the batch."""
    if spec.advanced.shape_attributes is None or spec.is_sequential:
        return False
    rows = []
    for i, x in enumerate(operands):
        batch = spec.batch_rank(i, x)
        shape: Any = (*(_Unknown() for _ in range(batch)), *x.shape[batch:])
        rows.append(jax.ShapeDtypeStruct(shape, x.dtype))
    try:
        _computed(spec, rows, attributes)
    except Exception:  # whatever a function raises for such a size
        return True
    return False


def _computed(
    spec: OpSpec,
    types: Sequence[jax.ShapeDtypeStruct],
    attributes: AttributeValues,
) -> dict[str, object]:
    function, where = spec.advanced.shape_attributes, "shape_attributes"
    assert function is not None
    computed = function(*spec.fill(types), **attributes.for_reference)
    if not isinstance(computed, Mapping):
        raise TypeError(spec.error(where, "a mapping", repr(computed)))
    unnamed = [name for name in computed if not isinstance(name, str)]
    if unnamed:
        raise TypeError(spec.error(where, "names", repr(unnamed[0])))
    both = sorted(attributes.items.keys() & computed.keys())
    if both:
        expected = "no name that `attributes` has"
        raise ValueError(spec.error(where, expected, ", ".join(both)))
    return {k: _as_given(spec, k, v) for k, v in computed.items()}


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
    if type(value) is tuple:
        return all(type(v) is int for v in value)
    return type(value) in (int, str, bool) or (
        type(value) is float and value != 0 and value == value
    )


def _names(names: Mapping[str, object]) -> str:
    return ", ".join(sorted(names)) or "none"


def _misspelled(
    arguments: Mapping[str, object], attributes: Mapping[str, Kind]
) -> str:
    """What an error adds of names that are no attributes."""
    text = ""
    for name in sorted(arguments.keys() - attributes.keys()):
        near = difflib.get_close_matches(name, attributes, 1)
        remedy = f"; did you mean {near[0]}?" if near else ""
        text += f"; {name} is no attribute{remedy}"
    return text


def _convert(op: str, name: str, kind: Kind, value: object) -> object:
    what = f"attribute {name}"
    if _jax_hooks.is_traced(value):
        remedy = "pass it as a Python number (jit: static_argnames)"
        got = f"a traced one; {remedy}"
        raise TypeError(message(op, what, "a static value", got))
    if kind is None:
        try:
            hash(value)
        except TypeError:
            expected = "a hashable value, such as a tuple"
            raise _mismatch(op, name, expected, value) from None
        return value
    if isinstance(kind, type):
        if not isinstance(value, str):
            raise _mismatch(op, name, "a string", value)
        return value
    if isinstance(kind, dict):
        if not isinstance(value, Mapping) or value.keys() != kind.keys():
            raise _mismatch(op, name, f"a mapping of {_names(kind)}", value)
        return {
            k: _convert(op, f"{name}.{k}", t, value[k]) for k, t in kind.items()
        }
    if isinstance(kind, np.dtype):
        number = _scalar(op, name, kind, value)
        if isinstance(number, np.uint64) and number > _MOST:
            why = "since JAX takes single numbers as signed ones"
            expected = f"at most {_MOST}, {why}"
            raise ValueError(message(op, what, expected, f"{number}"))
        return number
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise _mismatch(op, name, f"a sequence of {kind[0].name}", value)
    return np.array(
        [_scalar(op, f"{name}[{i}]", kind[0], v) for i, v in enumerate(value)],
        kind[0],
    )


def _scalar(op: str, name: str, dtype: _DType, value: object) -> object:
    article = "an" if dtype.name.startswith("i") else "a"
    expected = f"{article} {dtype.name} scalar"
    if isinstance(value, bool | np.bool_):
        if dtype.kind != "b":
            raise _mismatch(op, name, expected, value)
        return np.bool_(value)
    accepted: Any = (int, np.integer)
    if dtype.kind == "f":
        accepted += (float, np.floating)
    if dtype.kind in "iu" and isinstance(value, float | np.floating):
        raise _mismatch(op, name, expected, value, _FRACTIONS)
    if dtype.kind == "b" or not isinstance(value, accepted):
        raise _mismatch(op, name, expected, value)
    is_float = dtype.kind == "f"
    bounds = np.finfo(dtype.name) if is_float else np.iinfo(dtype.name)
    with contextlib.suppress(OverflowError), np.errstate(over="ignore"):
        # NumPy checks the bounds of Python's integers alone.
        whole = isinstance(value, np.integer)
        number = dtype.type(int(value) if whole else value)
        # A float may be infinite, and is not to become it.
        if not np.isinf(number) or math.isinf(value):
            return number
    expected = f"{dtype.name}, {bounds.min!s} to {bounds.max!s}"
    raise ValueError(message(op, f"attribute {name}", expected, f"{value!s}"))


def _mismatch(
    op: str, name: str, expected: str, value: object, remedy: str = ""
) -> TypeError:
    got = f"{value!r} ({type(value).__name__}){remedy}"
    return TypeError(message(op, f"attribute {name}", expected, got))


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    return value.item() if isinstance(value, np.generic) else value
