"""Reads the signatures of handlers from a library's handler table.

`xla_ffi/core/handler_signature.h` has the structs that are read here. A handler
written with the plain FFI has no signature, and neither has one of an older
library.
"""

from __future__ import annotations

import ctypes
import dataclasses
import enum
from collections.abc import Iterator, Sequence
from ctypes import c_char_p, c_int32, c_int64, c_size_t, c_void_p
from typing import TypeVar

_STRING, _ARRAY = 4, 1  # XLA_FFI_AttrType; a scalar is 3
_MOST = 64  # arguments, attributes, dtypes and words, so that garbage ends
_NO_BOUND = (1 << 63) - 1  # a `max` that says there is none
_NO_RANK = (1 << 31) - 1  # the same as a rank

# XLA_FFI_DataType, as HLO names it.
_DTYPES = {
    **dict(enumerate(("pred", "s8", "s16", "s32", "s64"), start=1)),
    **dict(enumerate(("u8", "u16", "u32", "u64", "f16", "f32", "f64"), 6)),
    **{15: "c64", 16: "bf16", 18: "c128"},
    **{19: "f8e5m2", 20: "f8e4m3fn", 23: "f8e4m3b11fnuz"},
    **{24: "f8e5m2fnuz", 25: "f8e4m3fnuz"},
}


class _Argument(ctypes.Structure):
    _fields_ = [
        ("place", c_char_p),
        ("dtypes", c_void_p),
        ("num_dtypes", c_size_t),
        ("dtype_text", c_char_p),
        ("dtype_of", c_int32),
        ("min_rank", c_int32),
        ("max_rank", c_int32),
        ("shape_of", c_int32),
        ("shape_form", c_int32),
        ("last", c_char_p),
        ("shape_text", c_char_p),
        ("is_optional", c_int32),
        ("given_with", c_int32),
        ("is_repeated", c_int32),
    ]


class _Attribute(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("type", c_int32),
        ("dtype", c_int32),
        ("size", c_int64),
        ("min", c_int64),
        ("max", c_int64),
        ("max_text", c_char_p),
        ("axis_of", c_int32),
        ("words", c_void_p),
        ("num_words", c_size_t),
        ("other_dtype", c_int32),
        ("unless_given", c_int32),
    ]


class _Signature(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("argument_size", c_size_t),
        ("attribute_size", c_size_t),
        ("operation", c_char_p),
        ("num_operands", c_size_t),
        ("num_results", c_size_t),
        ("arguments", c_void_p),
        ("num_attributes", c_size_t),
        ("attributes", c_void_p),
    ]


class ShapeForm(enum.IntEnum):
    """The relation of a shape to that of another argument."""

    SAME = 0
    BUT_LAST = 1  # another last axis
    WITHOUT_LAST = 2
    WITHOUT_AXIS = 3


@dataclasses.dataclass(frozen=True)
class Argument:
    """An operand or a result."""

    name: str  # "result" for the only one, if the library does not name it
    dtypes: tuple[str, ...]  # "f32", those it may have; none: `dtype_of` or any
    dtype_of: str | None  # the argument whose dtype it has
    ranks: tuple[int, int | None]  # the least, and the most if there is one
    shape_of: str | None  # the argument whose shape it has, in this form
    shape_form: ShapeForm = ShapeForm.SAME
    shape_axis: str | None = None  # the attribute of the form
    is_optional: bool = False
    given_with: str | None = None  # it is there exactly if this operand is
    is_repeated: bool = False  # one or more; results: one for each operand

    @property
    def shape(self) -> str:
        """Its shape in words, "rank >= 1" or "like x"; empty for any."""
        if self.shape_of == self.name:
            return "all of one shape"
        if self.shape_of:
            form = {
                ShapeForm.SAME: "",
                ShapeForm.BUT_LAST: f", last axis {self.shape_axis or 'any'}",
                ShapeForm.WITHOUT_LAST: " without its last axis",
                ShapeForm.WITHOUT_AXIS: f" without its {self.shape_axis}",
            }
            return f"like {self.shape_of}{form[self.shape_form]}"
        least, most = self.ranks
        if least == most:
            return f"rank {least}"
        return f"rank >= {least}" if least else ""

    def __str__(self) -> str:
        name = self.name + ("?" if self.is_optional else "")
        if self.given_with:
            name += f" (with {self.given_with})"
        if self.is_repeated:
            name += "..."
        dtype = f"like {self.dtype_of}" if self.dtype_of else "any"
        text = "|".join(self.dtypes) or dtype
        shape = self.shape or ("any shape" if self.dtype_of else "")
        if self.dtype_of:
            shape = shape.removeprefix(dtype).lstrip(", ")
        return f"{name}: {text}" + (f"[{shape}]" if shape else "")


@dataclasses.dataclass(frozen=True)
class Attribute:
    """A static attribute."""

    name: str
    dtype: str | None  # "s64"; None for a string
    is_array: bool
    values: str  # in words: "2 of 1 to 2^30", "sum|max"; empty for any
    other_dtype: str | None = None  # of a scalar that may have one of two
    unless_given: str | None = None  # it is there only without this operand

    @property
    def types(self) -> tuple[str, ...]:
        """The types it may have, in words: "s64", "array of s64", "string"."""
        if self.dtype is None:
            return ("string",)
        one = f"array of {self.dtype}" if self.is_array else self.dtype
        return (self.other_dtype, one) if self.other_dtype else (one,)

    def __str__(self) -> str:
        name = self.name + ("?" if self.unless_given else "")
        unless = f"unless {self.unless_given}" if self.unless_given else ""
        notes = ", ".join(filter(None, (self.values, unless)))
        return f"{name}: {'|'.join(self.types)}" + (
            f" ({notes})" if notes else ""
        )


@dataclasses.dataclass(frozen=True)
class Signature:
    """The signature of a handler; its `str` shows the call in one line."""

    target: str
    operands: tuple[Argument, ...]
    results: tuple[Argument, ...]
    attributes: tuple[Attribute, ...]

    def operands_of(self, count: int) -> tuple[Argument, ...] | None:
        """Returns the operands of a call with so many; None if none has."""
        if any(operand.is_repeated for operand in self.operands):
            return self.operands * count if count > 0 else None
        left = count - sum(not operand.is_optional for operand in self.operands)
        given = []
        for operand in self.operands:
            if operand.is_optional:
                left -= 1
            if not operand.is_optional or left >= 0:
                given.append(operand)
        return tuple(given) if len(given) == count else None

    def attributes_of(
        self, operands: Sequence[Argument]
    ) -> tuple[Attribute, ...]:
        """Returns the attributes of a call with these operands."""
        given = {operand.name for operand in operands}
        return tuple(a for a in self.attributes if a.unless_given not in given)

    def __str__(self) -> str:
        stars = ("*",) if self.attributes else ()
        taken = (*self.operands, *stars, *self.attributes)
        given = ", ".join(map(str, self.results))
        return f"{self.target}({', '.join(map(str, taken))}) -> {given}"


def read(address: int) -> Signature:
    """Reads the signature at an address from a handler table."""
    found = _Signature.from_address(address)
    count = found.num_operands + found.num_results
    arguments = tuple(
        _rows(_Argument, found.arguments, count, found.argument_size)
    )
    attributes = _rows(
        _Attribute, found.attributes, found.num_attributes, found.attribute_size
    )
    names = tuple(_name(a.place) for a in arguments)
    read_ = tuple(_argument(a, names) for a in arguments)
    return Signature(
        found.operation.decode(),
        read_[: found.num_operands],
        read_[found.num_operands :],
        tuple(_attribute(a, names) for a in attributes),
    )


_Row = TypeVar("_Row", bound=ctypes.Structure)


def _rows(row: type[_Row], at: int, count: int, size: int) -> Iterator[_Row]:
    if count > _MOST:
        raise ValueError("its handler table has a signature of too many rows")
    for i in range(count):
        read_row = row()  # zeros where the library's struct ends earlier
        known = min(size, ctypes.sizeof(row))
        ctypes.memmove(ctypes.addressof(read_row), at + i * size, known)
        yield read_row


def _name(place: bytes) -> str:
    return place.decode().partition(" ")[2] or place.decode()


def _argument(found: _Argument, names: Sequence[str]) -> Argument:
    if found.num_dtypes > _MOST:
        raise ValueError("its handler table has a signature of too many dtypes")
    numbers = (c_int32 * found.num_dtypes).from_address(found.dtypes or 1)
    has_most = found.max_rank < _NO_RANK
    return Argument(
        _name(found.place),
        tuple(_DTYPES.get(n, f"dtype {n}") for n in numbers)
        if found.num_dtypes
        else (),
        names[found.dtype_of] if found.dtype_of >= 0 else None,
        (found.min_rank, found.max_rank if has_most else None),
        names[found.shape_of] if found.shape_of >= 0 else None,
        ShapeForm(found.shape_form),
        found.last.decode() if found.last else None,
        bool(found.is_optional),
        names[found.given_with] if found.given_with else None,
        bool(found.is_repeated),
    )


def _number(n: int) -> str:
    """Formats a bound; large powers of 2 as powers."""
    size = abs(n)
    if size < 1 << 15 or size & (size - 1):
        return str(n)
    return f"{'-' if n < 0 else ''}2^{size.bit_length() - 1}"


def _attribute(found: _Attribute, names: Sequence[str]) -> Attribute:
    values = ""
    if found.num_words:
        if found.num_words > _MOST:
            raise ValueError("its handler table has too many words")
        words = (c_char_p * found.num_words).from_address(found.words)
        values = "|".join((word or b"").decode() for word in words)
    elif found.axis_of >= 0:
        values = f"axis of {names[found.axis_of]}"
    elif found.min <= found.max == _NO_BOUND:
        values = f"{found.min} or more"
    elif found.min <= found.max:
        values = f"{_number(found.min)} to {_number(found.max)}"
    if found.type == _ARRAY and found.size >= 0:
        values = f"{found.size} of {values}" if values else f"{found.size}"
    dtype = _DTYPES.get(found.dtype, f"dtype {found.dtype}")
    return Attribute(
        found.name.decode(),
        None if found.type == _STRING else dtype,
        found.type == _ARRAY,
        values,
        _DTYPES.get(found.other_dtype),
        names[found.unless_given] if found.unless_given else None,
    )
