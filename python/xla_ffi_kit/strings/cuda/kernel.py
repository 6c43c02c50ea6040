"""Kernels in strings, compiled and launched on CUDA."""

from __future__ import annotations

import abc
import dataclasses
import functools
import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from xla_ffi_kit._check import Typed
from xla_ffi_kit.compile import flags as compiler_flags
from xla_ffi_kit.errors import BuildError, CudaStringWarning, NoCompilerError
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES, HandlerLibrary
from xla_ffi_kit.op.spec import (
    DeviceKernel,
    KernelAttributes,
    Request,
)
from xla_ffi_kit.strings.cuda import nvrtc
from xla_ffi_kit.strings.cuda.source import CudaSource
from xla_ffi_kit.strings.text import element_types, remedies

TARGET = "xla_ffi_kit.launch"
# How the handler is told what a parameter of the kernel is: a buffer by its
# number, the others as xla_ffi/runtime/launch.h has them.
_NUMBER_OF_ITEMS = -1
_FIRST_CONSTANT = -2
_BYTES_OF_ARRAY = 96
_MOST_BYTES = 4096  # of all parameters of a kernel

# Compiles the source of an operation with options, perhaps for other machines
# too; returns the kernel's symbol, and its code as the handler takes it. It is
# `nvrtc.compile_for_gpus`, or the emulator's in tests.
Compile: TypeAlias = Callable[
    [str, CudaSource, Sequence[str], bool], tuple[str, str]
]
# Writes the kernel of a loop for arrays of a dtype.
Sources: TypeAlias = Callable[[np.dtype[np.generic]], CudaSource]


@dataclasses.dataclass(frozen=True)
class StringKernel(DeviceKernel):
    """A kernel in a string.

    Attributes:
      name: the name of the operation.
      attributes: the names of the attributes, in the kernel's order.
      operands: the number of operands.
      flags: the author's flags, for both platforms.
      is_required: whether the reference must not run instead of the kernel.
      compile: the function that compiles the kernel.
      library: the library of the handler that launches the kernel.
      target: the custom call target of that handler.
    """

    name: str
    attributes: tuple[str, ...]
    operands: int
    flags: Sequence[str]
    is_required: bool
    compile: Compile = nvrtc.compile_for_gpus
    library: HandlerLibrary | None = KIT_LIBRARIES[0]
    target: str = TARGET

    @abc.abstractmethod
    def source(self, request: Request) -> CudaSource:
        """Returns the kernel for a call; raises BuildError if there is none."""

    @abc.abstractmethod
    def launch(
        self,
        source: CudaSource,
        attributes: Mapping[str, object],
        operands: Sequence[Typed],
    ) -> Mapping[str, object]:
        """Returns grid, block and shared memory of a call, as attributes."""

    def buffers(self, request: Request) -> int:
        """Returns the number of results that the kernel writes."""
        return len(request.results)

    def prepare(self, request: Request) -> KernelAttributes | None:
        """Compiles the kernel for the dtypes of a call."""
        try:
            return self._prepare(request)
        except NoCompilerError as error:
            if self.is_required:
                raise NoCompilerError(f"{self.name}: {error}") from None
            return None
        except BuildError as error:
            if self.is_required:
                raise
            _warn_once(self.name, str(error))
            return None

    def by(self, target: str) -> StringKernel:
        """Returns the same kernel for another handler, which is registered."""
        return dataclasses.replace(self, target=target, library=None)

    def report(self) -> str:
        """How it runs, in a few words."""
        or_else = "" if self.is_required else ", or else the reference"
        return f"the string, by NVRTC when a program is lowered{or_else}"

    def _prepare(self, request: Request) -> KernelAttributes:
        if self.library is not None and not self.library.exists:
            raise NoCompilerError(
                f"there is no {self.library.path}, which launches kernels; "
                "reinstall the package"
            )
        source = self.source(request)
        room = _array_bytes(request.attributes)
        packed, offsets = _constants(self.attributes, request.attributes, room)
        self._check_size(packed, self.operands + self.buffers(request))
        options = [
            f"-DKIT_ARRAY_BYTES={room}",
            *compiler_flags.macros(self.flags),
        ]
        try:
            symbol, code = self.compile(
                self.name, source, options, request.is_for_export
            )
        except NoCompilerError:
            raise
        except BuildError as error:
            raise BuildError(remedies.of_cuda(str(error))) from None
        parameters = [
            *range(self.operands),
            *(_FIRST_CONSTANT - offset for offset in offsets),
            *range(self.operands, self.operands + self.buffers(request)),
            *([_NUMBER_OF_ITEMS] if source.items else []),
        ]
        constants = {
            "name": self.name,
            "symbol": symbol,
            "digest": hashlib.sha256(code.encode()).hexdigest()[:32],
            "code": code,
            "items": sizes(*source.items),
            "parameters": sizes(*parameters),
            "constants": np.frombuffer(packed, np.int64),
        }
        return functools.partial(
            self._attributes, constants, source, request.plain_attributes
        )

    def _attributes(
        self,
        constants: Mapping[str, object],
        source: CudaSource,
        attributes: Mapping[str, object],
        operands: Sequence[Typed],
    ) -> Mapping[str, object]:
        return {**constants, **self.launch(source, attributes, operands)}

    def _check_size(self, packed: bytes, arrays: int) -> None:
        room = _MOST_BYTES - 8 - _BYTES_OF_ARRAY * arrays
        if len(packed) > room:
            raise BuildError(
                f"{self.name}: attributes: expected at most {room} bytes on "
                f"CUDA beside {arrays} arrays, got {len(packed)}; pass long "
                "sequences as operands"
            )


@dataclasses.dataclass(frozen=True)
class LoopKernel(StringKernel):
    """The kernel of `elementwise` and `rows`, for arrays of one dtype.

    Attributes:
      sources: the kernels.
    """

    sources: Sources | None = None

    def source(self, request: Request) -> CudaSource:
        """The kernel for the dtype that all arrays have."""
        if not request.operands:
            raise BuildError(
                f"{self.name}: operands: expected at least one on CUDA, got "
                "none"
            )
        arrays = (*request.operands, *request.results)
        dtypes = list(dict.fromkeys(str(a.dtype) for a in arrays))
        if len(dtypes) > 1 or dtypes[0] not in element_types.names():
            raise BuildError(
                f"{self.name}: dtypes: expected operands and results of one "
                f"dtype of {', '.join(element_types.names())}, got "
                f"{', '.join(dtypes)}"
            )
        assert self.sources is not None
        return self.sources(np.dtype(request.operands[0].dtype))

    def launch(
        self,
        source: CudaSource,
        attributes: Mapping[str, object],
        operands: Sequence[Typed],
    ) -> Mapping[str, object]:
        """The handler counts the items of a call when it runs."""
        return {
            "grid": sizes(1, 1, 1),
            "block": sizes(source.threads, 1, 1),
            "shared": np.int64(0),
        }


def sizes(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """An attribute of some sizes."""
    return np.array(numbers, np.int64)


def _array_bytes(values: Mapping[str, object]) -> int:
    """KIT_ARRAY_BYTES: the room for the longest attribute that is a sequence.

    In powers of two, so that sequences of many lengths have one kernel.
    """
    longest = max(
        (len(_bytes_of(v)) for v in values.values() if _is_sequence(v)),
        default=0,
    )
    return max(8, 1 << (longest - 1).bit_length()) if longest else 8


def _constants(
    names: Sequence[str], values: Mapping[str, object], room: int
) -> tuple[bytes, list[int]]:
    """The bytes of the attributes, and where each one begins.

    A sequence is its size and `room` bytes, as kit::Array and kit::String of
    xla_ffi/strings/cuda/array.h.
    """
    packed, offsets = b"", []
    for name in names:
        offsets.append(len(packed))
        value = values[name]
        data = _bytes_of(value)
        if _is_sequence(value):
            size = len(data) if isinstance(value, str) else value.size  # type: ignore
            data = size.to_bytes(8, "little") + data.ljust(room, b"\0")
        packed += data + b"\0" * (-len(data) % 8)
    return packed, offsets


def _is_sequence(value: object) -> bool:
    return isinstance(value, np.ndarray | str)


def _bytes_of(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    assert isinstance(value, np.ndarray | np.generic)
    return value.tobytes()


_warnings: set[tuple[str, str]] = set()


def _warn_once(name: str, error: str) -> None:
    if (name, error) in _warnings:
        return
    _warnings.add((name, error))
    warnings.warn(
        f"{error}\nits reference runs on CUDA; platforms=('cpu',) says that "
        "this is meant, platforms=('cpu', 'cuda') makes it an error",
        CudaStringWarning,
        stacklevel=2,
    )
