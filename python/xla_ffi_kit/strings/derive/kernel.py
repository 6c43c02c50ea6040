"""The handler of a string's derivative, compiled when it is lowered."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from xla_ffi_kit._check import Typed
from xla_ffi_kit.errors import BuildError, NoCompilerError
from xla_ffi_kit.library.handler_library import HandlerLibrary
from xla_ffi_kit.op.spec import (
    AttributeType,
    DeviceKernel,
    KernelAttributes,
    Request,
)
from xla_ffi_kit.strings.derive.function import Body, DifferentiableCode
from xla_ffi_kit.strings.text.source import Source
from xla_ffi_kit.strings.text.targets import RenamedLibrary

Load = Callable[[Source, Callable[..., object], Sequence[str]], RenamedLibrary]

# By default, gcc copies the slopes of a statement in memory from operator to
# operator: half of the time of a tape in lanes. clang does not know the option.
_FLAGS = (
    "--param=sra-max-scalarization-size-Ospeed=2000",
    "-Wno-unused-command-line-argument",
)


@dataclasses.dataclass(frozen=True)
class String:
    """What all derivatives of a string have in common.

    Attributes:
      body: the string.
      decorated: the function that the author decorated.
      attributes: the types of the attributes.
      flags: the author's flags.
      has_fallback: whether the reference runs without a compiler.
      load: compiles a source, or takes it from the cache.
      on_cuda: the kernel of a derivative on CUDA; None: the reference's.
      shapes: more attributes of the handlers, from the types of operands and
        from the attributes of a call; None: there are none.
    """

    body: Body
    decorated: Callable[..., object]
    attributes: Mapping[str, AttributeType]
    flags: Sequence[str]
    has_fallback: bool
    load: Load
    on_cuda: Callable[[DifferentiableCode], DeviceKernel] | None = None
    shapes: (
        Callable[[Sequence[Typed], Mapping[str, object]], Mapping[str, object]]
        | None
    ) = None


class DerivativeKernel(DeviceKernel):
    """The handler of a derivative, which is compiled when it is lowered."""

    def __init__(
        self,
        string: String,
        function: DifferentiableCode,
        named: Callable[..., object],
    ) -> None:
        self._string = string
        self._function = function
        self._named = named
        self.library: HandlerLibrary | None = None
        self.target = f"{function.name} (not compiled yet)"
        self._is_registered = False

    @property
    def is_ready(self) -> bool:
        """Whether it has a handler: a program that needs it was lowered."""
        return self.library is not None or self._is_registered

    def prepare(self, request: Request) -> KernelAttributes | None:
        """Compiles the derivative; None without a compiler, if that is fine."""
        if not self._is_registered and not self._load():
            return None
        string = self._string

        def attributes(operands: Sequence[Typed]) -> Mapping[str, object]:
            if string.shapes is None:
                return dict(request.attributes)
            shapes = string.shapes(operands, request.plain_attributes)
            return {**request.attributes, **shapes}

        return attributes

    def _load(self) -> bool:
        string = self._string
        source = string.body.source(self._function)
        try:
            library = string.load(source, self._named, (*_FLAGS, *string.flags))
        except NoCompilerError as error:
            if string.has_fallback:
                return False
            raise NoCompilerError(f"{self._function.name}: {error}") from None
        except BuildError as error:
            raise BuildError(string.body.with_remedy(str(error))) from None
        self.library, self.target = library, library.target
        return True

    def how(self) -> str:
        """The operation's name, and how it runs the rows of a call."""
        way = "not compiled yet"
        if isinstance(self.library, RenamedLibrary):
            way = self.library.rows()
        return f"{self._function.name} ({way})"

    def report(self) -> str:
        """How it runs, in a few words."""
        when = "when a program is lowered"
        if self.is_ready:
            when = f"as {self.target}"
        return f"the string, compiled for numbers with derivatives {when}"

    def by(self, target: str) -> DeviceKernel:
        """The same for a handler that somebody else has registered."""
        kernel = DerivativeKernel(self._string, self._function, self._named)
        kernel.target, kernel._is_registered = target, True
        return kernel
