"""From a C++ source to an `FfiOp`."""

from __future__ import annotations

import functools
import hashlib
import inspect
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np

from xla_ffi_kit import _check
from xla_ffi_kit.library import handler_library, registration
from xla_ffi_kit.library.handler_library import HandlerLibraryError
from xla_ffi_kit.primitive.ffi_op import FfiOp, R
from xla_ffi_kit.primitive.spec import AttributeType, Options
from xla_ffi_kit.strings import (
    cache,
    compiler,
    compiler_flags,
    element_types,
    headers,
    signature,
    targets,
)
from xla_ffi_kit.strings.dependencies import Found
from xla_ffi_kit.strings.errors import BuildError, NoCompilerError
from xla_ffi_kit.strings.source import EXPORTS, Source
from xla_ffi_kit.strings.targets import RenamedLibrary


def name_of(reference: Callable[..., object], default: str = "") -> str:
    """The operation's name: the reference's, also if that is a partial one.

    A lambda has none: its operation gets `default`.
    """
    while isinstance(reference, functools.partial):
        reference = reference.func
    name = getattr(reference, "__name__", type(reference).__name__)
    return name if name.isidentifier() else default


def parameter_names(
    reference: Callable[..., object],
) -> tuple[tuple[str, ...], dict[str, object]]:
    """Names of the operands, and the attributes with their defaults."""
    parameters = inspect.signature(reference).parameters.values()
    keywords = {
        p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY
    }
    operands = tuple(p.name for p in parameters if p.name not in keywords)
    return operands, keywords


def make(
    source: Source,
    reference: Callable[..., R],
    flags: Sequence[str],
    fallback: str | None,
    kernel_axes: int | Sequence[int],
    options: Options,
) -> FfiOp[R]:
    """Compiles the source and makes the operation."""
    if fallback not in (None, "reference"):
        raise ValueError(
            f"{source.name}: fallback: expected None or 'reference', got "
            f"{fallback!r}"
        )
    flags = _check.sequence(f"{source.name}: flags", flags)
    declared = options.get("attributes") or {}
    given = options.copy()
    try:
        own = load(source, reference, flags)
    except NoCompilerError as error:
        if fallback is None:
            raise NoCompilerError(
                f"{source.name}: {error}, or pass fallback='reference'"
            ) from None
        given["handlers"] = options.get("handlers", {})
        types = attribute_types(source.name, reference, declared)
        given["attributes"] = {**declared, **types}
        return FfiOp(source.name, reference, kernel_axes=kernel_axes, **given)
    found = signature.read(own, source)
    _check_attributes(source.name, found.attributes, declared)
    # An exported program runs where the operation is defined.
    registration.register_at_import(own)
    given["handlers"] = {"cpu": own.target, **options.get("handlers", {})}
    others = handler_library.all_of(options.get("libraries", ()))
    given["libraries"] = (own, *others)
    given["attributes"] = found.attributes
    dtypes = [[dtype.name for dtype in types] for types in found.operands]
    return FfiOp(
        source.name, reference, kernel_axes=kernel_axes, dtypes=dtypes, **given
    )


def load(
    source: Source, reference: Callable[..., object], flags: Sequence[str]
) -> RenamedLibrary:
    """The library, compiled or from the cache, and loaded for good."""
    while True:
        version, path = build(source, flags)
        try:
            return targets.library(reference, source, flags, version, path)
        except HandlerLibraryError:
            if path.exists():
                raise
            # Another process has compiled a newer one, or cleared the cache.


def build(source: Source, flags: Sequence[str]) -> tuple[str, pathlib.Path]:
    """What tells the library from others, and where it is in the cache."""
    found = compiler.find()
    compiler_flags.check(source.name, flags)
    key = hashlib.sha256(headers.digest())
    for part in (
        compiler.identity(found, flags),
        source.text(with_place=False),
    ):
        key.update(hashlib.sha256(part.encode()).digest())

    def compile_library(library: pathlib.Path) -> Found:
        file = library.with_name(f"{source.name}.cc")
        file.write_text(source.text(), encoding="utf-8")
        try:
            return compiler.compile_tracked(
                source.name, found, file, EXPORTS, library, flags
            )
        except BuildError as error:
            raise BuildError(source.explain(str(error))) from None

    entry = cache.get(key.hexdigest()[:32], source.name, compile_library)
    return f"{source.name}.{entry.version}", entry.library


def _check_attributes(
    name: str,
    found: Mapping[str, AttributeType],
    declared: Mapping[str, AttributeType],
) -> None:
    """Checks the types that the author declared against those of the C++."""
    for attribute, wanted in declared.items():
        got = found.get(attribute)
        where = f"{name}: attribute {attribute}"
        if got != element_types.attribute(where, wanted):
            raise BuildError(
                f"{name}: attribute {attribute}: expected {wanted} as "
                f"`attributes` has it, got {got} in the C++ function"
            )


def attribute_types(
    name: str,
    reference: Callable[..., object],
    declared: Mapping[str, AttributeType],
) -> dict[str, AttributeType]:
    """The types of the attributes: declared, or those of the defaults."""
    return {
        attribute: declared[attribute]
        if attribute in declared
        else type_of_default(name, attribute, default)
        for attribute, default in parameter_names(reference)[1].items()
    }


def type_of_default(
    name: str, attribute: str, default: object
) -> AttributeType:
    """The type of an attribute, from its default, as C++ would have it."""
    for kind, dtype in (
        (bool, np.bool_),
        (int, np.int64),
        (float, np.float64),
        (str, str),
    ):
        if isinstance(default, kind):
            return dtype
    if isinstance(default, np.generic):
        return default.dtype
    if isinstance(default, tuple | list) and default:
        element = type_of_default(name, attribute, default[0])
        return cast(AttributeType, (element,))
    raise BuildError(
        f"{name}: attribute {attribute}: expected a default that is a number, "
        "a bool, a string or a sequence of numbers, or its type in "
        f"`attributes`, got {default!r}"
    )
