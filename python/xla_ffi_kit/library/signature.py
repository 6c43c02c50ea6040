"""Reads the signatures of handlers from a library's handler table.

`xla_ffi/core/handler_signature.h` has the structs that are read here. A handler
written with the plain FFI has no signature, and neither has one of an older
library.
"""

from __future__ import annotations

import ctypes
import dataclasses
import enum
from collections.abc import Sequence
from ctypes import c_char_p, c_int32, c_int64, c_size_t, c_void_p
from typing import TypeVar

_STRING, _ARRAY = 4, 1  # XLA_FFI_AttrType; a scalar is 3
# Arguments, attributes, dtypes, sizes and words, so that garbage ends.
_MOST = 1024
_NO_BOUND = (1 << 63) - 1  # a `max` that says there is none

# XLA_FFI_DataType, as HLO names it.
_DTYPES = {
    **dict(enumerate(("pred", "s8", "s16", "s32", "s64"), start=1)),
    **dict(enumerate(("u8", "u16", "u32", "u64", "f16", "f32", "f64"), 6)),
    **{15: "c64", 16: "bf16", 18: "c128"},
    **{19: "f8e5m2", 20: "f8e4m3fn", 23: "f8e4m3b11fnuz"},
    **{24: "f8e5m2fnuz", 25: "f8e4m3fnuz"},
}


class _Size(ctypes.Structure):
    _fields_ = [
        ("name", c_void_p),
        ("name_size", c_size_t),
        ("min", c_int64),
        ("max", c_int64),
        ("attribute", c_int32),
    ]


class _Argument(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dtypes", c_void_p),
        ("num_dtypes", c_size_t),
        ("dtype_of", c_int32),
        ("dtype_form", c_int32),
        ("shape_form", c_int32),
        ("shape_of", c_int32),
        ("without_axis", c_int32),
        ("batch", c_int32),
        ("shape", c_char_p),
        ("sizes", c_void_p),
        ("num_sizes", c_size_t),
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
        ("num_sizes", c_size_t),
        ("sizes", c_void_p),
        ("num_combinations", c_size_t),
    ]


class _Form(enum.IntEnum):
    """XlaFfiKit_ShapeForm."""

    ANY = 0
    SIZES = 1
    LIKE = 2
    WITHOUT_AXIS = 3


_SHARED = 2  # XlaFfiKit_Batch


@dataclasses.dataclass(frozen=True)
class Size:
    """The size of a kernel axis."""

    name: str | None  # None: it is `least`
    least: int
    most: int | None
    attribute: str | None  # the one whose value it is

    @property
    def bounds(self) -> str:
        """In words: "n of 1 to 16"; empty if there are none."""
        if self.name is None or (self.least == 0 and self.most is None):
            return ""
        return f"{self.name} of {bounds_in_words(self.least, self.most)}"


@dataclasses.dataclass(frozen=True)
class Argument:
    """An operand or a result."""

    name: str
    # "f32", those it may have; none: any. Of combinations, one in each.
    dtypes: tuple[str, ...]
    dtype_of: str | None  # the argument from whose dtype its own follows
    is_accumulation: bool  # if it is the one to add up its elements in
    # The kernel axes, of which every one has its size; None if the signature
    # does not say how many there are.
    sizes: tuple[Size, ...] | None
    shape: str  # in words, "(..., n)" or "like x"; empty for any
    is_shared: bool = False  # without batch axes, or with the first ones
    is_batched: bool = True  # any number of batch axes comes first
    is_optional: bool = False
    given_with: str | None = None  # it is there exactly if this operand is
    is_repeated: bool = False  # one or more; results: one for each operand

    @property
    def kernel_axes(self) -> int | None:
        """How many there are, if the signature says it."""
        return None if self.sizes is None else len(self.sizes)

    @property
    def dtype(self) -> str:
        """In words: "f32|f64", "like x"."""
        if self.is_accumulation:
            return f"f32|f64 to add up {self.dtype_of}"
        if self.dtype_of:
            return f"like {self.dtype_of}"
        return "|".join(dict.fromkeys(self.dtypes)) or "any"

    @property
    def bounds(self) -> tuple[str, ...]:
        """The bounds of its sizes, in words; none if it is like another."""
        if not self.shape.startswith("("):
            return ()
        bounds = (size.bounds for size in self.sizes or ())
        return tuple(dict.fromkeys(filter(None, bounds)))

    def __str__(self) -> str:
        name = self.name + ("?" if self.is_optional else "")
        if self.given_with:
            name += f" (with {self.given_with})"
        if self.is_repeated:
            name += "..."
        if self.shape == self.dtype:
            return f"{name}: {self.dtype}"
        shape = (self.shape or "any shape").strip("()") or "()"
        # Those of what it is like are not told twice.
        bounds = () if shape.startswith("like ") else self.bounds
        notes = "; ".join((shape, *bounds))
        return f"{name}: {self.dtype}[{notes}]"


@dataclasses.dataclass(frozen=True)
class Attribute:
    """A static attribute."""

    name: str
    dtype: str | None  # "s64"; None for a string
    is_array: bool
    values: str  # in words: "2 of 1 to 2^30", "sum|max"; empty for any
    other_dtype: str | None = None  # of a scalar that may have one of two
    unless_given: str | None = None  # it is there only without this operand
    words: tuple[str, ...] = ()  # those that a string may be; none: any
    elements: int | None = None  # of an array, if the signature says it
    # Of a number, or of each in an array; None if it is an axis, or any.
    bounds: tuple[int, int | None] | None = None

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
    # Dtypes of the operands that go together; empty if all do.
    combinations: tuple[tuple[str, ...], ...] = ()

    def operands_of(self, count: int) -> tuple[Argument, ...] | None:
        """Returns the operands of a call with so many; None if none has."""
        if any(operand.is_repeated for operand in self.operands):
            return self.operands * count if count > 0 else None
        left = count - sum(not operand.is_optional for operand in self.operands)
        present = []
        for operand in self.operands:
            if operand.is_optional:
                left -= 1
            if not operand.is_optional or left >= 0:
                present.append(operand)
        return tuple(present) if len(present) == count else None

    def __str__(self) -> str:
        stars = ("*",) if self.attributes else ()
        parameters = (*self.operands, *stars, *self.attributes)
        results = ", ".join(map(str, self.results))
        return f"{self.target}({', '.join(map(str, parameters))}) -> {results}"


def read(address: int) -> Signature:
    """Reads the signature at an address from a handler table."""
    struct = _Signature.from_address(address)
    count = struct.num_operands + struct.num_results
    argument_rows = _rows(
        _Argument, struct.arguments, count, struct.argument_size
    )
    attribute_rows = _rows(
        _Attribute,
        struct.attributes,
        struct.num_attributes,
        struct.attribute_size,
    )
    names = [row.name.decode() for row in argument_rows]
    attribute_names = [row.name.decode() for row in attribute_rows]
    sizes = [
        _size(row, attribute_names)
        for row in _rows(
            _Size, struct.sizes, struct.num_sizes, ctypes.sizeof(_Size)
        )
    ]
    arguments: list[Argument] = []
    for row in argument_rows:
        arguments.append(
            _argument(row, names, attribute_names, sizes, arguments)
        )
    operands = tuple(arguments[: struct.num_operands])
    combinations = zip(*(o.dtypes for o in operands), strict=True)
    return Signature(
        struct.operation.decode(),
        operands,
        tuple(arguments[struct.num_operands :]),
        tuple(_attribute(row, names) for row in attribute_rows),
        tuple(combinations) if struct.num_combinations else (),
    )


_Row = TypeVar("_Row", bound=ctypes.Structure)


def _rows(row: type[_Row], at: int, count: int, size: int) -> list[_Row]:
    if count > _MOST:
        raise ValueError("its handler table has a signature of too many rows")
    # Zeros where the library's struct ends earlier.
    structs = [row() for _ in range(count)]
    size_read = min(size, ctypes.sizeof(row))
    for i, struct in enumerate(structs):
        ctypes.memmove(ctypes.addressof(struct), at + i * size, size_read)
    return structs


def _at(names: Sequence[str], index: int) -> str | None:
    return names[index] if index >= 0 else None


def _size(row: _Size, attributes: Sequence[str]) -> Size:
    name = None
    if row.name_size:
        name = ctypes.string_at(row.name, row.name_size).decode()
    attribute = _at(attributes, row.attribute)
    return Size(name, row.min, _most(row.max), attribute)


def _argument(
    row: _Argument,
    names: Sequence[str],
    attributes: Sequence[str],
    sizes: Sequence[Size],
    earlier: Sequence[Argument],
) -> Argument:
    if max(row.num_dtypes, row.num_sizes) > _MOST:
        raise ValueError("its handler table has a signature of too many dtypes")
    numbers = (c_int32 * row.num_dtypes).from_address(row.dtypes or 1)
    kernel_axes: tuple[Size, ...] | None = None
    shape, is_shared, is_batched = "", False, True
    if row.shape_form not in list(_Form):
        raise ValueError(
            f"its handler table has the argument {row.name.decode()} in an "
            f"unknown form, {row.shape_form}: update xla_ffi_kit"
        )
    form = _Form(row.shape_form)
    if form == _Form.SIZES:
        places = (c_int32 * row.num_sizes).from_address(row.sizes or 1)
        kernel_axes = tuple(sizes[place] for place in places)
        shape = row.shape.decode()
        is_shared = row.batch == _SHARED
        is_batched = row.batch != 0
    elif form == _Form.LIKE:
        model = earlier[row.shape_of]
        kernel_axes, shape = model.sizes, f"like {model.name}"
        is_shared, is_batched = model.is_shared, model.is_batched
    elif form == _Form.WITHOUT_AXIS:
        axis = attributes[row.without_axis]
        shape = f"like {names[row.shape_of]} without its {axis}"
    return Argument(
        row.name.decode(),
        tuple(_DTYPES.get(n, f"dtype {n}") for n in numbers),
        _at(names, row.dtype_of),
        bool(row.dtype_form),
        kernel_axes,
        shape,
        is_shared,
        is_batched,
        bool(row.is_optional),
        names[row.given_with] if row.given_with else None,
        bool(row.is_repeated),
    )


def _number(n: int) -> str:
    """Formats a bound; large powers of 2 as powers."""
    size = abs(n)
    if size < 1 << 15 or size & (size - 1):
        return str(n)
    return f"{'-' if n < 0 else ''}2^{size.bit_length() - 1}"


def _most(limit: int) -> int | None:
    return None if limit == _NO_BOUND else limit


def bounds_in_words(least: int, most: int | None) -> str:
    """Bounds, in words: "1 or more", "2 to 2^30"."""
    if most is None:
        return f"{least} or more"
    return f"{_number(least)} to {_number(most)}"


def _attribute(row: _Attribute, names: Sequence[str]) -> Attribute:
    values = ""
    words: tuple[str, ...] = ()
    elements, bounds = None, None
    if row.num_words:
        if row.num_words > _MOST:
            raise ValueError("its handler table has too many words")
        pointers = (c_char_p * row.num_words).from_address(row.words)
        words = tuple((word or b"").decode() for word in pointers)
        values = "|".join(words)
    elif row.axis_of >= 0:
        values = f"axis of {names[row.axis_of]}"
        if row.min > 0 or row.max != _NO_BOUND:
            sizes = bounds_in_words(row.min, _most(row.max))
            values += f" of {sizes} elements"
    elif row.min <= row.max:
        bounds = row.min, _most(row.max)
        values = bounds_in_words(*bounds)
    if row.type == _ARRAY and row.size >= 0:
        elements = row.size
        values = f"{row.size} of {values}" if values else f"{row.size}"
    dtype = _DTYPES.get(row.dtype, f"dtype {row.dtype}")
    return Attribute(
        row.name.decode(),
        None if row.type == _STRING else dtype,
        row.type == _ARRAY,
        values,
        _DTYPES.get(row.other_dtype),
        names[row.unless_given] if row.unless_given else None,
        words,
        elements,
        bounds,
    )
