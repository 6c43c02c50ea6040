"""Makes an `FfiOp` from a C++ source."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic

import jax

from xla_ffi_kit import _check
from xla_ffi_kit.compile import cache, compiler, cpp, headers
from xla_ffi_kit.compile import flags as compiler_flags
from xla_ffi_kit.errors import BuildError, HandlerLibraryError, NoCompilerError
from xla_ffi_kit.ffi_op import FfiOp, R
from xla_ffi_kit.library import handler_library, registration
from xla_ffi_kit.library.signature import Signature
from xla_ffi_kit.op.spec import (
    Advanced,
    AttributeType,
    Options,
    OwnDerivatives,
)
from xla_ffi_kit.strings.cuda import nvrtc
from xla_ffi_kit.strings.cuda.kernel import LoopKernel, Sources
from xla_ffi_kit.strings.derive import derivable
from xla_ffi_kit.strings.derive.function import Attributes, Find
from xla_ffi_kit.strings.text import element_types, targets
from xla_ffi_kit.strings.text.element_types import DTypes
from xla_ffi_kit.strings.text.loops import Parameters
from xla_ffi_kit.strings.text.references import attribute_types
from xla_ffi_kit.strings.text.source import EXPORTS, Source
from xla_ffi_kit.strings.text.targets import RenamedLibrary

# Code for this machine alone: the processor is part of the cache's key. An
# author's -march comes later, and counts.
_NATIVE = ("-march=native",)
_PLATFORMS = ("cpu", "cuda")


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
    parameters: Parameters,
    sources: Sources,
    dtypes: DTypes,
    flags: Sequence[str],
    platforms: Sequence[str] | None,
) -> OnCuda:
    """What an operation of `elementwise` or `rows` does on CUDA.

    Args:
      parameters: the names and types of its parameters.
      sources: writes the kernel for a dtype.
      dtypes: the author's.
      flags: the author's.
      platforms: those that must run the string; by default both do, and CUDA
        may run the reference.
    """
    name = parameters.name
    runs_on: tuple[str, ...] = _PLATFORMS
    if platforms is not None:
        runs_on = _check.sequence(f"{name}: platforms", platforms)
        if not runs_on or not set(runs_on) <= set(_PLATFORMS):
            raise ValueError(
                f"{name}: platforms: expected some of {_PLATFORMS}, got "
                f"{platforms!r}"
            )
    kernel = LoopKernel(
        name=name,
        sources=sources,
        attributes=tuple(parameters.attributes),
        operands=len(parameters.operands),
        flags=_check.sequence(f"{name}: flags", flags),
        is_required=platforms is not None,
    )
    instances = element_types.instances(name, dtypes)
    for instance in instances:
        if len(instance) > 1:
            got = ",".join(dtype.name for dtype in instance)
            raise BuildError(
                f"{name}: dtypes: expected one for all arrays, such as "
                f"'f32 f64', got {got!r}; arrays of several dtypes are "
                "operands of a template of xla_ffi_kit.inline"
            )
    return OnCuda(
        kernel if "cuda" in runs_on else None,
        "cpu" in runs_on,
        [dtype.name for (dtype,) in instances],
    )


@dataclasses.dataclass(frozen=True)
class StringOp(Generic[R]):
    """A string and all that makes an operation of it.

    Attributes:
      source: the C++ file, which is compiled for CPUs.
      decorated: the function that the author decorated.
      has_reference: whether it is a reference, and not a shape function.
      flags: the author's compiler flags.
      fallback: "reference" if that runs without a compiler.
      kernel_axes: as `FfiOp` takes it.
      options: the author's other keywords.
      on_cuda: what runs on CUDA, and where; None for the reference.
      find: the function in C++ to differentiate; None if derivatives are the
        reference's.
    """

    source: Source
    decorated: Callable[..., R]
    has_reference: bool
    flags: Sequence[str]
    fallback: str | None
    kernel_axes: int | None
    options: Options
    on_cuda: OnCuda | None = None
    find: Find | None = None

    def __post_init__(self) -> None:
        allowed = (None, "reference") if self.has_reference else (None,)
        if self.fallback not in allowed:
            expected = "None or 'reference'"
            if not self.has_reference:
                expected = "None, as there is no reference"
            raise ValueError(
                f"{self.name}: fallback: expected {expected}, got "
                f"{self.fallback!r}"
            )

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.source.name

    @functools.cached_property
    def all_flags(self) -> tuple[str, ...]:
        """The compiler's flags, the author's last."""
        return *_NATIVE, *_check.sequence(f"{self.name}: flags", self.flags)

    @functools.cached_property
    def attributes(self) -> Mapping[str, AttributeType]:
        """The types of attributes that the author declared."""
        return self.options.get("attributes") or {}

    def op(self) -> FfiOp[R]:
        """The operation, compiled for CPUs if it runs there."""
        if self.on_cuda is not None and not self.on_cuda.and_on_cpu:
            return self.without_compiler()
        try:
            library = load(self.source, self.decorated, self.all_flags)
        except NoCompilerError as error:
            return self.without_compiler(error)
        return self.compiled(library)

    def compiled(self, library: RenamedLibrary) -> FfiOp[R]:
        """The operation of a library, whose signature says the types."""
        signature = library.signature(library.target)
        assert signature is not None  # KIT_DEFINE_HANDLER defines it
        types = _types(self.name, signature)
        types |= {n: None for n, t in self.attributes.items() if t is None}
        _check_attributes(self.name, types, self.attributes)
        # An exported program runs where the operation is defined.
        registration.register_early(library)
        others = handler_library.all_of(self.options.get("libraries", ()))
        options = self.options.copy()
        options["handlers"] = {"cpu": library.target, **self._handlers()}
        options["libraries"] = (library, *others)
        options["attributes"] = types
        return self._ffi_op(options, signature)

    def without_compiler(
        self, error: NoCompilerError | None = None
    ) -> FfiOp[R]:
        """The operation if CPUs run the reference, or raise `error`."""
        handlers = self._handlers()
        if error is not None and self.fallback is None:
            remedy = ""
            if self.has_reference:
                remedy = ", or pass fallback='reference'"
            refusal = NoCompilerError(f"{self.name}: {error}{remedy}")
            if "cuda" not in handlers or not nvrtc.is_installed():
                raise refusal from None
            handlers.setdefault("cpu", _refuse(refusal))
        types = attribute_types(self.name, self.decorated, self.attributes)
        options = self.options.copy()
        options["handlers"] = handlers
        options["attributes"] = {**self.attributes, **types}
        dtypes = None if self.on_cuda is None else self.on_cuda.dtypes
        return self._ffi_op(options, dtypes=dtypes)

    def derivative(
        self, attributes: Attributes, signature: Signature | None
    ) -> OwnDerivatives | None:
        """What makes the operations that are derivatives by the string."""
        function = self.find and self.find(signature, attributes)
        if not function:
            return None
        return derivable.differentiable(
            function,
            self.decorated,
            attributes,
            self.all_flags,
            self.fallback is not None,
            self.has_reference,
            load,
            None if self.on_cuda is None else self.on_cuda.kernel,
        )

    def _handlers(self) -> dict[str, Any]:
        """The handlers but that of the string for CPUs."""
        handlers = {**(self.options.get("handlers") or {})}
        if self.on_cuda is not None and self.on_cuda.kernel is not None:
            handlers.setdefault("cuda", self.on_cuda.kernel)
        return handlers

    def _ffi_op(
        self,
        options: Options,
        signature: Signature | None = None,
        dtypes: Sequence[str] | None = None,
    ) -> FfiOp[R]:
        if self.find is not None:
            options["advanced"] = dataclasses.replace(
                options.get("advanced") or Advanced(),
                differentiate=self.derivative(
                    options["attributes"] or {}, signature
                ),
            )
        return FfiOp(
            self.name,
            self.decorated if self.has_reference else None,
            results=None if self.has_reference else self.decorated,
            kernel_axes=self.kernel_axes,
            dtypes=dtypes,
            **options,
        )


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
    host = compiler.find()
    compiler_flags.check(source.name, flags, host.command)
    flags = (*source.flags, *flags)
    key = hashlib.sha256(headers.digest())
    for part in (compiler.identity(host, flags), source.text(with_place=False)):
        encoded = cpp.encode(source.name, part)
        key.update(hashlib.sha256(encoded).digest())

    def compile_library(library: pathlib.Path) -> list[str]:
        return _compile(source, host, library, flags)

    entry = cache.get(key.hexdigest()[:32], source.name, compile_library)
    return f"{source.name}.{entry.version}", entry.library


def _compile(
    source: Source,
    host: compiler.Compiler,
    library: pathlib.Path,
    flags: Sequence[str],
) -> list[str]:
    """Compiles the source; returns the files that were read."""
    file = library.with_name("source.cc")
    file.write_bytes(cpp.encode(source.name, source.text()))
    try:
        return compiler.compile_tracked(
            source.name, host, file, EXPORTS, library, flags
        )
    except compiler.CompilerError as error:
        message = source.with_remedy(str(error), error.output)
        raise BuildError(message) from None


def _types(name: str, signature: Signature) -> dict[str, AttributeType]:
    """The types of the attributes, as `FfiOp` takes them."""
    return {
        attribute.name: str
        if attribute.dtype is None
        else element_types.attribute(
            f"{name}: attribute {attribute.name}",
            (attribute.dtype,) if attribute.is_array else attribute.dtype,
        )
        for attribute in signature.attributes
    }


def _check_attributes(
    name: str,
    types: Mapping[str, AttributeType],
    declared: Mapping[str, AttributeType],
) -> None:
    """Checks the types that the author declared against those of the C++."""
    for attribute, expected in declared.items():
        got = types.get(attribute)
        where = f"{name}: attribute {attribute}"
        if expected is not None and got != element_types.attribute(
            where, expected
        ):
            raise BuildError(
                f"{where}: expected {expected} as `attributes` has it, got "
                f"{got} in the C++ function"
            )
