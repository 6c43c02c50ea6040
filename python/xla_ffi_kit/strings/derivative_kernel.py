"""The handler of a string's derivative, compiled when it is lowered."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from xla_ffi_kit.errors import BuildError, NoCompilerError
from xla_ffi_kit.library.handler_library import HandlerLibrary
from xla_ffi_kit.primitive.device_kernel import (
    Attributes,
    DeviceKernel,
    Request,
)
from xla_ffi_kit.primitive.spec import AttributeType
from xla_ffi_kit.strings import derivative_errors, derivative_source
from xla_ffi_kit.strings.derivative_source import Body, Function
from xla_ffi_kit.strings.source import Place, Source
from xla_ffi_kit.strings.targets import RenamedLibrary

Load = Callable[[Source, Callable[..., object], Sequence[str]], RenamedLibrary]


@dataclasses.dataclass(frozen=True)
class String:
    """What all derivatives of a string have in common.

    Attributes:
      body: the string.
      decorated: the function that the author decorated.
      attributes: the types of the attributes.
      dtypes: the names of the dtypes of floats for which it is compiled.
      flags: the author's flags.
      has_fallback: whether the reference runs without a compiler.
      place: where the author's code before it comes from.
      load: compiles a source, or takes it from the cache.
    """

    body: Body
    decorated: Callable[..., object]
    attributes: Mapping[str, AttributeType]
    dtypes: Sequence[str]
    flags: Sequence[str]
    has_fallback: bool
    place: Place | None
    load: Load


class Kernel(DeviceKernel):
    """The handler of a derivative, which is compiled when it is lowered."""

    def __init__(
        self, string: String, function: Function, named: Callable[..., object]
    ) -> None:
        self._string = string
        self._function = function
        self._named = named
        self.library: HandlerLibrary | None = None
        self.target = f"{function.name} (not compiled yet)"
        self._is_registered = False

    def prepare(self, request: Request) -> Attributes | None:
        """Compiles the derivative; None without a compiler, if that is fine."""
        attributes = dict(request.attributes)
        if self._is_registered:
            return lambda _: attributes
        string = self._string
        source = derivative_source.source(
            string.body, self._function, string.dtypes, string.place
        )
        try:
            own = string.load(source, self._named, string.flags)
        except NoCompilerError as error:
            if string.has_fallback:
                return None
            raise NoCompilerError(f"{self._function.name}: {error}") from None
        except BuildError as error:
            raise BuildError(derivative_errors.explain(str(error))) from None
        self.library, self.target = own, own.target
        return lambda _: attributes

    def by(self, target: str) -> DeviceKernel:
        """The same for a handler that somebody else has registered."""
        made = Kernel(self._string, self._function, self._named)
        made.target, made._is_registered = target, True
        return made
