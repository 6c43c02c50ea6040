"""Makes an `FfiOp` from a C++ source."""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import jax

from xla_ffi_kit import _check
from xla_ffi_kit.compile import (
    cache,
    compiler,
    cpp,
    headers,
)
from xla_ffi_kit.compile import (
    flags as compiler_flags,
)
from xla_ffi_kit.errors import BuildError, HandlerLibraryError, NoCompilerError
from xla_ffi_kit.ffi_op import FfiOp, R
from xla_ffi_kit.library import handler_library, registration
from xla_ffi_kit.library.signature import Signature
from xla_ffi_kit.op.spec import Advanced, AttributeType, Options
from xla_ffi_kit.strings.cuda import nvrtc
from xla_ffi_kit.strings.cuda.kernel import LoopKernel, Sources
from xla_ffi_kit.strings.derive import derivable
from xla_ffi_kit.strings.derive.function import Find
from xla_ffi_kit.strings.text import (
    element_types,
    loops,
    targets,
)
from xla_ffi_kit.strings.text.element_types import DTypes
from xla_ffi_kit.strings.text.references import attribute_types
from xla_ffi_kit.strings.text.source import EXPORTS, Source
from xla_ffi_kit.strings.text.targets import RenamedLibrary

# Compiled only for this machine; part of the cache's key. An author's own comes
# later, and counts.
_NATIVE = ("-march=native",)


@dataclasses.dataclass(frozen=True)
class OnCuda:
    """What an operation does on CUDA.

    Attributes:
      kernel: the kernel that runs on CUDA; None for the reference.
      and_on_cpu: whether CPUs have a handler too.
      dtypes: the dtypes of the operands, if no library for CPUs states them.
    """

    kernel: LoopKernel | None
    and_on_cpu: bool
    dtypes: Sequence[str] | None


def on_cuda(
    loop: loops.Loop,
    sources: Sources,
    dtypes: DTypes,
    flags: Sequence[str],
    platforms: Sequence[str] | None,
) -> OnCuda:
    """Returns what a loop does on CUDA."""
    known = ("cpu", "cuda")
    chosen: tuple[str, ...] = known
    if platforms is not None:
        chosen = _check.sequence(f"{loop.name}: platforms", platforms)
        if not chosen or not set(chosen) <= set(known):
            raise ValueError(
                f"{loop.name}: platforms: expected some of {known}, got "
                f"{platforms!r}"
            )
    kernel = LoopKernel(
        name=loop.name,
        sources=sources,
        attributes=tuple(loop.attributes),
        operands=len(loop.operands),
        flags=_check.sequence(f"{loop.name}: flags", flags),
        is_required=platforms is not None,
    )
    instances = element_types.instances(loop.name, dtypes)
    return OnCuda(
        kernel if "cuda" in chosen else None,
        "cpu" in chosen,
        [dtype.name for (dtype,) in instances],
    )


def make(
    source: Source,
    reference: Callable[..., R],
    flags: Sequence[str],
    fallback: str | None,
    kernel_axes: int | None,
    options: Options,
    on_cuda: OnCuda | None = None,
    find: Find | None = None,
    has_reference: bool = True,
) -> FfiOp[R]:
    """Compiles the source for CPUs and makes the operation.

    With `find`, its derivatives come from what that finds to differentiate.
    """
    if fallback not in (None, "reference"):
        raise ValueError(
            f"{source.name}: fallback: expected None or 'reference', got "
            f"{fallback!r}"
        )
    if not has_reference and fallback is not None:
        raise ValueError(
            f"{source.name}: fallback: expected None, as there is no "
            f"reference, got {fallback!r}"
        )
    flags = (*_NATIVE, *_check.sequence(f"{source.name}: flags", flags))
    declared = options.get("attributes") or {}
    given = options.copy()
    handlers = dict(options.get("handlers") or {})
    if on_cuda is not None and on_cuda.kernel is not None:
        handlers.setdefault("cuda", on_cuda.kernel)

    def made(given: Any, signature: Signature | None = None) -> FfiOp[R]:
        if find is not None:
            differentiate = derivable.differentiable(
                find(signature, given["attributes"]),
                reference,
                given["attributes"],
                flags,
                fallback is not None,
                has_reference,
                load,
                None if on_cuda is None else on_cuda.kernel,
            )
            given["advanced"] = dataclasses.replace(
                given.get("advanced") or Advanced(), differentiate=differentiate
            )
        function = "reference" if has_reference else "results"
        given |= {function: reference, "kernel_axes": kernel_axes}
        return cast(FfiOp[R], FfiOp(source.name, **given))

    own = None
    try:
        if on_cuda is None or on_cuda.and_on_cpu:
            own = load(source, reference, flags)
    except NoCompilerError as error:
        if fallback is None:
            way = ", or pass fallback='reference'" if has_reference else ""
            without = NoCompilerError(f"{source.name}: {error}{way}")
            if "cuda" not in handlers or not nvrtc.is_installed():
                raise without from None
            handlers.setdefault("cpu", _refuse(without))
    if own is None:
        given["handlers"] = handlers
        types = attribute_types(source.name, reference, declared)
        given["attributes"] = {**declared, **types}
        return made({"dtypes": on_cuda.dtypes, **given} if on_cuda else given)
    found = own.signature(own.target)
    assert found is not None  # KIT_DEFINE_HANDLER defines it
    types = _types(source.name, found)
    _check_attributes(source.name, types, declared)
    # An exported program runs where the operation is defined.
    registration.register_early(own)
    given["handlers"] = {"cpu": own.target, **handlers}
    others = handler_library.all_of(options.get("libraries", ()))
    given["libraries"] = (own, *others)
    given["attributes"] = types
    return made(given, found)


def _refuse(error: NoCompilerError) -> Callable[..., jax.Array]:
    """Raises on CPUs if nothing could be compiled for them."""

    def refuse(*operands: jax.Array, **attributes: object) -> jax.Array:
        raise error

    return refuse


def load(
    source: Source, reference: Callable[..., object], flags: Sequence[str]
) -> RenamedLibrary:
    """Returns the library, compiled or from the cache, which stays loaded."""
    while True:
        version, path = build(source, flags)
        try:
            return targets.library(reference, source, flags, version, path)
        except HandlerLibraryError:
            if path.exists():
                raise
            # Another process has compiled a newer one, or cleared the cache.


def build(source: Source, flags: Sequence[str]) -> tuple[str, pathlib.Path]:
    """Returns what identifies the library, and its path in the cache."""
    found = compiler.find()
    compiler_flags.check(source.name, flags, found.command)
    flags = (*source.flags, *flags)
    key = hashlib.sha256(headers.digest())
    for part in (
        compiler.identity(found, flags),
        source.text(with_place=False),
    ):
        encoded = cpp.encode(source.name, part)
        key.update(hashlib.sha256(encoded).digest())

    def compile_library(library: pathlib.Path) -> list[str]:
        return _compile(source, found, library, flags)

    entry = cache.get(key.hexdigest()[:32], source.name, compile_library)
    return f"{source.name}.{entry.version}", entry.library


def _compile(
    source: Source,
    found: compiler.Compiler,
    library: pathlib.Path,
    flags: Sequence[str],
) -> list[str]:
    """Compiles the source; returns the files that were read."""
    file = library.with_name("source.cc")
    file.write_bytes(cpp.encode(source.name, source.text()))
    try:
        return compiler.compile_tracked(
            source.name, found, file, EXPORTS, library, flags
        )
    except compiler.CompilerError as error:
        message = source.explain(str(error), error.output)
        raise BuildError(message) from None


def _types(name: str, found: Signature) -> dict[str, AttributeType]:
    """The types of the attributes, as `FfiOp` takes them."""
    return {
        attribute.name: str
        if attribute.dtype is None
        else element_types.attribute(
            f"{name}: attribute {attribute.name}",
            (attribute.dtype,) if attribute.is_array else attribute.dtype,
        )
        for attribute in found.attributes
    }


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
