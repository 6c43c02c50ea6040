"""What a handler takes and returns, as its library's handler table says it.

`xla_ffi/core/handler_signature.h`. A handler written with the plain FFI has no
signature, nor has one of an older library.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Iterator, Sequence
from ctypes import c_char_p, c_int32, c_int64, c_size_t, c_void_p
from typing import TypeVar

_STRING, _ARRAY = 4, 1  # XLA_FFI_AttrType; a scalar is 3
_MOST = 64  # arguments, attributes, dtypes and words, so that garbage ends

# XLA_FFI_DataType, as HLO names it.
_DTYPES = {
    **dict(enumerate(("pred", "s8", "s16", "s32", "s64"), start=1)),
    **dict(enumerate(("u8", "u16", "u32", "u64", "f16", "f32", "f64"), 6)),
    **{15: "c64", 16: "bf16", 18: "c128"},
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
        ("is_but_last", c_int32),
        ("last", c_char_p),
        ("shape_text", c_char_p),
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


@dataclasses.dataclass(frozen=True)
class Argument:
    """An operand or a result."""

    name: str  # "" for the only result, if the library does not name it
    dtypes: tuple[str, ...]  # "f32", those it may have; none: `dtype_of` or any
    dtype_of: str | None  # the argument whose dtype it has
    shape: str  # in words: "rank >= 1", "like x"; empty for any

    def __str__(self) -> str:
        dtype = f"like {self.dtype_of}" if self.dtype_of else "any"
        text = "|".join(self.dtypes) or dtype
        if self.dtype_of and self.shape == dtype:
            return f"{self.name}: {dtype}"
        shape = f"[{self.shape}]" if self.shape else ""
        return f"{self.name}: {text}{shape}"


@dataclasses.dataclass(frozen=True)
class Attribute:
    """A static attribute."""

    name: str
    dtype: str | None  # "s64"; None for a string
    is_array: bool
    values: str  # in words: "2 of 1 to 2^30", "sum|max"; empty for any

    @property
    def type(self) -> str:
        """The type in words: "s64", "array of s64", "string"."""
        if self.dtype is None:
            return "string"
        return f"array of {self.dtype}" if self.is_array else self.dtype

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" + (
            f" ({self.values})" if self.values else ""
        )


@dataclasses.dataclass(frozen=True)
class Signature:
    """What a handler takes: `str` of it is one line to call it by."""

    target: str
    operands: tuple[Argument, ...]
    results: tuple[Argument, ...]
    attributes: tuple[Attribute, ...]

    def __str__(self) -> str:
        stars = ("*",) if self.attributes else ()
        taken = (*self.operands, *stars, *self.attributes)
        given = ", ".join(map(str, self.results))
        return f"{self.target}({', '.join(map(str, taken))}) -> {given}"


def read(address: int) -> Signature:
    """The signature at an address that a handler table gives."""
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
    return (row.from_address(at + i * size) for i in range(count))


def _name(place: bytes) -> str:
    return place.decode().partition(" ")[2] or place.decode()


def _argument(found: _Argument, names: Sequence[str]) -> Argument:
    if found.num_dtypes > _MOST:
        raise ValueError("its handler table has a signature of too many dtypes")
    numbers = (c_int32 * found.num_dtypes).from_address(found.dtypes or 1)
    if found.shape_of >= 0:
        shape = f"like {names[found.shape_of]}"
        if found.is_but_last:
            last = (found.last or b"its own").decode()
            shape += f", last axis {last}"
    elif found.min_rank == found.max_rank:
        shape = f"rank {found.min_rank}"
    else:
        shape = f"rank >= {found.min_rank}" if found.min_rank else ""
    return Argument(
        _name(found.place),
        tuple(_DTYPES.get(n, f"dtype {n}") for n in numbers)
        if found.num_dtypes
        else (),
        names[found.dtype_of] if found.dtype_of >= 0 else None,
        shape,
    )


def _attribute(found: _Attribute, names: Sequence[str]) -> Attribute:
    values = ""
    if found.num_words:
        if found.num_words > _MOST:
            raise ValueError("its handler table has too many words")
        words = (c_char_p * found.num_words).from_address(found.words)
        values = "|".join((word or b"").decode() for word in words)
    elif found.axis_of >= 0:
        values = f"axis of {names[found.axis_of]}"
    elif found.min <= found.max:
        most = (found.max_text or str(found.max).encode()).decode()
        values = f"{found.min} to {most}"
    if found.type == _ARRAY and found.size >= 0:
        values = f"{found.size} of {values}" if values else f"{found.size}"
    dtype = _DTYPES.get(found.dtype, f"dtype {found.dtype}")
    return Attribute(
        found.name.decode(),
        None if found.type == _STRING else dtype,
        found.type == _ARRAY,
        values,
    )
