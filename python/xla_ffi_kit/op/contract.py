"""What an operation takes over from its handler's signature, or contradicts.

What a signature states need not be declared again. What is declared is compared
when the operation is defined: it would otherwise be an error inside XLA when a
program runs. A handler without a signature is not checked.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Mapping, Sequence

import numpy as np

from xla_ffi_kit import _dtypes
from xla_ffi_kit._check import Typed
from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.library.handler_library import HandlerLibrary
from xla_ffi_kit.library.signature import Attribute, Signature, bounds_in_words
from xla_ffi_kit.op import attribute_values
from xla_ffi_kit.op.attribute_values import Kind
from xla_ffi_kit.op.spec import AttributeType, Handlers, OpSpec

_HLO_NAMES = {name: short for short, name in _dtypes.SHORT_NAMES.items()}


@dataclasses.dataclass(frozen=True)
class Contract:
    """A handler's signature, or why none is known.

    Attributes:
      signature: the signature, None if there is none.
      source: the handler, for messages.
      why: why there is no signature.
      may_come: whether the library may yet tell it: it is missing or broken.
    """

    signature: Signature | None = None
    source: str = ""
    why: str = ""
    may_come: bool = False


def find(libraries: Sequence[HandlerLibrary], handlers: Handlers) -> Contract:
    """The signature of an operation's handler, on CPUs if it has one there."""
    targets = {p: t for p, t in handlers.items() if isinstance(t, str)}
    if not targets:
        return Contract(why="only a handler in a library tells it")
    if not libraries:
        return Contract(why="no library with its handler is given")
    first, *_ = targets.values()
    missing, names = "", set[str]()
    for platform in sorted(targets, key=lambda p: p != "cpu"):
        for library in libraries:
            if not library.exists:
                if not library.optional:
                    missing = missing or f"{library.path} does not exist"
                continue
            try:
                handler = library.handlers.get((targets[platform], platform))
            except HandlerLibraryError as error:
                return Contract(why=str(error), may_come=True)
            names |= {name for name, _ in library.handlers}
            if handler is not None:
                file = os.path.basename(library.path)
                source = f"{targets[platform]} of {file}"
                why = f"the handler {source} states none"
                return Contract(handler.signature(), source, why)
    why = missing or (
        f"no library has a handler {first!r}; they offer: "
        f"{', '.join(sorted(names)) or 'none'}"
    )
    return Contract(why=why, may_come=bool(missing))


def attribute_type(attribute: Attribute) -> AttributeType:
    """The type of an attribute, as `attributes` of an `FfiOp` has it."""
    if attribute.dtype is None:
        return str
    dtype = np.dtype(_dtypes.parse("attribute", attribute.dtype))
    return (dtype,) if attribute.is_array else dtype


def check(spec: OpSpec, source: str, names: Sequence[str]) -> None:
    """Raises ValueError if a handler does not take what `spec` passes.

    Args:
      spec: the operation, with all its operands.
      source: its handler, for messages.
      names: the attributes of the reference's signature.
    """
    _check_attributes(spec, source, names)
    for combination in spec.dtypes or ():
        arguments = spec.signature_operands
        for argument, name in zip(arguments, combination, strict=False):
            dtype = _short(name)
            if argument.dtypes and dtype not in argument.dtypes:
                expected = (
                    f"one of {', '.join(argument.dtypes)} for operand "
                    f"{argument.name}, as the handler {source} takes it"
                )
                raise ValueError(spec.error("dtypes", expected, dtype))


def _check_attributes(spec: OpSpec, source: str, names: Sequence[str]) -> None:
    declared = {
        name: _in_words(attribute_values.kind_of(spec.name, name, type_))
        for name, type_ in spec.all_attributes.items()
        if type_ is not None
    }
    taken = possible(spec)
    passed = {n for n in names if n in declared or n not in spec.all_attributes}
    # The attributes that are missing follow from the shapes of a call.
    computed = spec.advanced.shape_attributes and passed <= taken.keys()
    if passed != taken.keys() and not computed:
        more = sorted(passed - taken.keys()) if passed > taken.keys() else []
        nones = ", ".join(f'"{n}": None' for n in more)
        remedy = f"; attributes={{{nones}}} keeps such from it" if more else ""
        expected = f"{{{', '.join(taken)}}}, as the handler {source} takes them"
        got = f"{{{', '.join(sorted(passed))}}}{remedy}"
        raise ValueError(spec.error("attributes", expected, got))
    for name, attribute in taken.items():
        if name in declared and declared[name] not in attribute.types:
            types = " or ".join(attribute.types)
            expected = f"the type {types}, as the handler {source} takes it"
            what = f"attribute {name}"
            raise ValueError(spec.error(what, expected, declared[name]))


def possible(spec: OpSpec) -> dict[str, Attribute]:
    """The handler's attributes that some call has, by name."""
    if spec.contract is None:
        return {}
    pairs = zip(spec.operands, spec.signature_operands, strict=False)
    always = {a.name for o, a in pairs if not o.is_optional}
    return {
        attribute.name: attribute
        for attribute in spec.contract.attributes
        if attribute.unless_given not in always
    }


def check_values(spec: OpSpec, values: Mapping[str, object]) -> None:
    """ValueError if the handler takes no attributes of such values.

    It would say so itself when it runs. But the reference is traced before, and
    may break on them.
    """
    attributes = spec.contract.attributes if spec.contract is not None else ()
    for attribute in attributes:
        if attribute.name in values:
            wrong = _mismatch(attribute, values[attribute.name])
            if wrong is not None:
                what = f"attribute {attribute.name}"
                raise ValueError(spec.error(what, *wrong))


def _mismatch(attribute: Attribute, value: object) -> tuple[str, str] | None:
    """What is expected and got; None if the value is one of the handler's."""
    if attribute.words:
        *others, last = attribute.words
        expected = " or ".join(filter(None, (", ".join(others), last)))
        return None if value in attribute.words else (expected, str(value))
    numbers = np.asarray(value)
    if attribute.elements not in (None, numbers.size):
        return f"{attribute.elements} elements", str(numbers.size)
    if attribute.bounds is None:
        return None
    least, most = attribute.bounds
    is_real = numbers.dtype.kind not in "biu"
    for number in numbers.ravel().tolist():
        is_within = least <= number and (most is None or number <= most)
        if is_within and math.isfinite(number):
            continue
        if not is_real:
            return bounds_in_words(least, most), str(number)
        range_ = f">= {least}" if most is None else f"from {least} to {most}"
        return f"a finite value {range_}", f"{number:g}"
    return None


def _in_words(kind: Kind) -> str:
    """An attribute's declared type, as a signature has it."""
    if isinstance(kind, type):
        return "string"
    if isinstance(kind, dict):
        return "dictionary"
    if isinstance(kind, tuple):
        return f"array of {_short(kind[0])}"
    return _short(kind)


def _short(dtype: object) -> str:
    name = str(dtype)
    return _HLO_NAMES.get(name, name.replace("float8_", "f8"))


def check_dtypes(spec: OpSpec, operands: Sequence[Typed]) -> None:
    """TypeError if operands have dtypes that the handler does not take."""
    names, arguments = spec.operand_names, spec.signature_operands
    dtypes = [x.dtype.name for x in operands]
    places = {argument.name: i for i, argument in enumerate(arguments)}
    for argument, name, got in zip(arguments, names, dtypes, strict=True):
        allowed = [_long(dtype) for dtype in argument.dtypes]
        expected = f"dtype {', '.join(allowed)}"
        if argument.dtype_of in places:
            of = places[argument.dtype_of]
            allowed = [dtypes[of]]
            expected = f"dtype {dtypes[of]} as operand {names[of]} has"
            if argument.is_accumulation:
                wide = dtypes[of] in ("float64", "complex128")
                allowed = ["float64" if wide else "float32"]
                expected = f"dtype {allowed[0]} to add up operand {names[of]}"
        if allowed and got not in allowed:
            got += _dtypes.remedy(allowed)
            raise TypeError(spec.error(f"operand {name}", expected, got))


@functools.cache
def _long(short: str) -> str:
    return _dtypes.SHORT_NAMES.get(short, short.replace("f8", "float8_"))
