"""Kernels that a shared handler runs for operations without their own."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeAlias

from xla_ffi_kit._check import Typed
from xla_ffi_kit.library.handler_library import HandlerLibrary

# The attributes of a call, from its operands, batch axes included.
Attributes: TypeAlias = Callable[[Sequence[Typed]], Mapping[str, object]]


@dataclasses.dataclass(frozen=True)
class Request:
    """A call, as far as it is known before its shapes.

    Attributes:
      operands: the types of the operands.
      results: the types of the results.
      attributes: the operation's attributes, as NumPy values.
      plain_attributes: the same, as the reference gets them.
      is_for_export: whether the program may run on another machine.
    """

    operands: Sequence[Typed]
    results: Sequence[Typed]
    attributes: Mapping[str, object]
    plain_attributes: Mapping[str, object]
    is_for_export: bool


class DeviceKernel(abc.ABC):
    """A kernel that runs in a handler which many operations share.

    Attributes:
      library: the handler's library; None if it is registered already.
      target: the handler's custom call target.
      runs: what runs, for the doctor.
      needs_shapes: whether its attributes depend on the sizes of axes. If they
        do, the sizes must be known, and on a mesh they are one device's.
    """

    library: HandlerLibrary | None
    target: str
    runs: ClassVar[str] = "a kernel that NVRTC compiles"
    needs_shapes: ClassVar[bool] = False

    @abc.abstractmethod
    def prepare(self, request: Request) -> Attributes | None:
        """Prepares a call; returns None if the reference must run instead."""

    @abc.abstractmethod
    def by(self, target: str) -> DeviceKernel:
        """Returns the same kernel for another handler, which is registered."""

    def report(self) -> str:
        """How it runs, in a few words."""
        return f"the handler {self.target}"


def target_of(handler: object) -> str | None:
    """The custom call target of what an operation has for a platform."""
    if isinstance(handler, DeviceKernel):
        return handler.target
    return handler if isinstance(handler, str) else None
