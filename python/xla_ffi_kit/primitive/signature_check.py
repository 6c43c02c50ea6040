"""Compares an operation with its handlers' signatures when it is defined.

Otherwise, a missing attribute, a wrong dtype or a missing operand would be an
error inside XLA when a program runs. A handler without a signature is not
checked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from xla_ffi_kit import _dtypes
from xla_ffi_kit._dtypes import DType
from xla_ffi_kit.library.handler_library import HandlerLibraryError
from xla_ffi_kit.library.signature import Argument, Attribute, Signature
from xla_ffi_kit.primitive.spec import AttributeType, OpSpec

_HLO_NAMES = {name: short for short, name in _dtypes.SHORT_NAMES.items()}


def check(op: OpSpec, dtypes: Sequence[DType | Sequence[DType]] | None) -> None:
    """Raises ValueError if a handler does not take what `op` passes.

    A library that is missing or cannot be loaded is an error where it is used.
    """
    given = {
        name: _type(op.name, name, declared)
        for name, declared in op.attributes.items()
    }
    combinations = [
        tuple(map(_short, _dtypes.parse_each(f"{op.name}: dtypes", entry)))
        for entry in dtypes or ()
    ]
    for source, signature in _signatures(op):
        operands = _operands(op, source, signature)
        _compare_dtypes(op, source, operands, combinations)
        _compare_attributes(
            op, source, signature.attributes_of(operands), given
        )


def _signatures(op: OpSpec) -> Iterator[tuple[str, Signature]]:
    for library in op.libraries:
        target = op.handlers.get(library.platform)
        # Importing loads what no device is needed for.
        if library.platform != "cpu" or not library.exists:
            continue
        if not isinstance(target, str):
            continue
        try:
            handler = library.handlers.get(target)
        except HandlerLibraryError:
            continue
        signature = handler.signature() if handler else None
        if signature:
            yield f"{target} of {os.path.basename(library.path)}", signature


def _operands(
    op: OpSpec, source: str, signature: Signature
) -> tuple[Argument, ...]:
    """The handler's operands, as many as the operation has."""
    count = len(op.operand_names)
    found = signature.operands_of(count)
    if found is not None:
        return found
    names = [str(operand).partition(":")[0] for operand in signature.operands]
    least = sum(not operand.is_optional for operand in signature.operands)
    expected = str(least) if least == len(names) else f"{least} to {len(names)}"
    raise ValueError(
        f"{op.name}: reference: expected {expected} operands, "
        f"({', '.join(names)}), as the handler {source} takes them, got "
        f"{count}: ({', '.join(op.operand_names)})"
    )


def _compare_dtypes(
    op: OpSpec,
    source: str,
    operands: Sequence[Argument],
    combinations: Sequence[tuple[str, ...]],
) -> None:
    for combination in combinations:
        each = combination * (len(operands) if len(combination) == 1 else 1)
        for operand, dtype in zip(operands, each, strict=False):
            if operand.dtypes and dtype not in operand.dtypes:
                raise ValueError(
                    f"{op.name}: dtypes: expected one of "
                    f"{', '.join(operand.dtypes)} for operand {operand.name}, "
                    f"as the handler {source} takes it, got {dtype}"
                )


def _compare_attributes(
    op: OpSpec,
    source: str,
    attributes: Sequence[Attribute],
    given: Mapping[str, str],
) -> None:
    wanted = {attribute.name: attribute for attribute in attributes}
    # Others follow from the shapes of a call.
    computed = op.shape_attributes is not None and given.keys() <= wanted.keys()
    if given.keys() != wanted.keys() and not computed:
        raise ValueError(
            f"{op.name}: attributes: expected {{{', '.join(wanted)}}}, as the "
            f"handler {source} takes them, got {{{', '.join(sorted(given))}}}"
        )
    for name, attribute in wanted.items():
        if name in given and given[name] not in attribute.types:
            raise ValueError(
                f"{op.name}: attribute {name}: expected the type "
                f"{' or '.join(attribute.types)}, as the handler {source} "
                f"takes it, got {given[name]}"
            )


def _type(op: str, name: str, declared: AttributeType) -> str:
    """An attribute's declared type, as a signature has it."""
    if declared is str:
        return "string"
    if isinstance(declared, Mapping):
        return "dictionary"
    where = f"{op}: attribute {name}"
    if isinstance(declared, tuple):
        return f"array of {_short(_dtypes.parse(where, declared[0]))}"
    return _short(_dtypes.parse(where, declared))


def _short(dtype: object) -> str:
    name = str(dtype)
    return _HLO_NAMES.get(name, name.replace("float8_", "f8"))
