"""Reads the parameters that C++ deduced for a compiled function."""

from __future__ import annotations

import ctypes
import dataclasses

import numpy as np

from xla_ffi_kit.library.handler_library import HandlerLibrary
from xla_ffi_kit.primitive.spec import AttributeType
from xla_ffi_kit.strings import element_types
from xla_ffi_kit.strings.errors import BuildError
from xla_ffi_kit.strings.source import CODES_SYMBOL, Source


@dataclasses.dataclass(frozen=True)
class Signature:
    """The parameters of a function, or of all instances of a template.

    Attributes:
      attributes: name -> type, as `FfiOp` takes them.
      operands: the operands' types, for each instance.
      results: the results' types, for each instance.
    """

    attributes: dict[str, AttributeType]
    operands: tuple[tuple[np.dtype, ...], ...]
    results: tuple[tuple[np.dtype, ...], ...]


def read(library: HandlerLibrary, source: Source) -> Signature:
    """Reads it from the library that was compiled from `source`."""
    get = library.function(CODES_SYMBOL)
    get.argtypes = [ctypes.c_int]
    get.restype = ctypes.c_char_p
    instances: list[list[tuple[int, int]]] = []
    while (codes := get(len(instances))) is not None:
        instances.append(list(zip(codes[::2], codes[1::2], strict=True)))
    kinds = {"i": [], "o": []}  # type: dict[str, list[tuple[np.dtype, ...]]]
    attributes = []
    for codes in instances:
        for kind, found in kinds.items():
            found.append(tuple(_dtype(t) for k, t in codes if k == ord(kind)))
        attributes.append(
            [_attribute(chr(k), t) for k, t in codes if chr(k) in "sat"]
        )
    if any(types != attributes[0] for types in attributes):
        raise BuildError(
            f"{source.name}: attributes: expected types that do not depend on "
            "the template's parameters"
        )
    named = dict(zip(source.attributes, attributes[0], strict=True))
    for name, type_ in named.items():
        element_types.attribute(f"{source.name}: attribute {name}", type_)
    return Signature(named, tuple(kinds["i"]), tuple(kinds["o"]))


def _dtype(code: int) -> np.dtype:
    return element_types.from_number(code - ord("0"))


def _attribute(kind: str, code: int) -> AttributeType:
    if kind == "t":
        return str
    return (_dtype(code),) if kind == "a" else _dtype(code)
