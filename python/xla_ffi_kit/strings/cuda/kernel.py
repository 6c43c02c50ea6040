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
from xla_ffi_kit.strings.cuda import code as cuda_code
from xla_ffi_kit.strings.cuda import source as cuda_source
from xla_ffi_kit.strings.text import element_types, remedies

TARGET = "xla_ffi_kit.launch"
# The numbers of parameters are those of xla_ffi/runtime/launch.h.
_NUMBER_OF_ITEMS = -1
_FIRST_CONSTANT = -2
_BYTES_OF_ARRAY = 96
_MOST_BYTES = 4096  # of all parameters of a kernel


# Compiles a kernel of a name with options, perhaps for other machines too; its
# symbol and its code, as the handler takes it. `cuda_code.of`, or the
# emulator's in tests.
Compile: TypeAlias = Callable[
    [str, cuda_source.Kernel, Sequence[str], bool], tuple[str, str]
]
# Writes the kernel of a loop for arrays of a dtype.
Sources: TypeAlias = Callable[[np.dtype[np.generic]], cuda_source.Kernel]


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
    compile: Compile = cuda_code.of
    library: HandlerLibrary | None = KIT_LIBRARIES[0]
    target: str = TARGET

    @abc.abstractmethod
    def kernel(self, request: Request) -> cuda_source.Kernel:
        """Returns the kernel for a call; raises BuildError if there is none."""

    @abc.abstractmethod
    def launch(
        self,
        kernel: cuda_source.Kernel,
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
        kernel = self.kernel(request)
        values = request.attributes
        packed, offsets = cuda_source.constants(self.attributes, values)
        self._check_size(packed, self.operands + self.buffers(request))
        options = [
            f"-DKIT_ARRAY_BYTES={cuda_source.array_bytes(values)}",
            *compiler_flags.macros(self.flags),
        ]
        try:
            symbol, code = self.compile(
                self.name, kernel, options, request.is_for_export
            )
        except NoCompilerError:
            raise
        except BuildError as error:
            raise BuildError(remedies.of_cuda(str(error))) from None
        parameters = [
            *range(self.operands),
            *(_FIRST_CONSTANT - offset for offset in offsets),
            *range(self.operands, self.operands + self.buffers(request)),
            *([_NUMBER_OF_ITEMS] if kernel.items else []),
        ]
        known = {
            "name": self.name,
            "symbol": symbol,
            "digest": hashlib.sha256(code.encode()).hexdigest()[:32],
            "code": code,
            "items": sizes(*kernel.items),
            "parameters": sizes(*parameters),
            "constants": np.frombuffer(packed, np.int64),
        }
        return functools.partial(
            self._attributes, known, kernel, request.plain_attributes
        )

    def _attributes(
        self,
        known: Mapping[str, object],
        kernel: cuda_source.Kernel,
        attributes: Mapping[str, object],
        operands: Sequence[Typed],
    ) -> Mapping[str, object]:
        return {**known, **self.launch(kernel, attributes, operands)}

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

    def kernel(self, request: Request) -> cuda_source.Kernel:
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
        kernel: cuda_source.Kernel,
        attributes: Mapping[str, object],
        operands: Sequence[Typed],
    ) -> Mapping[str, object]:
        """The handler counts the items of a call when it runs."""
        return {
            "grid": sizes(1, 1, 1),
            "block": sizes(kernel.threads, 1, 1),
            "shared": np.int64(0),
        }


def sizes(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """An attribute of some sizes."""
    return np.array(numbers, np.int64)


_warned: set[tuple[str, str]] = set()


def _warn_once(name: str, error: str) -> None:
    if (name, error) in _warned:
        return
    _warned.add((name, error))
    warnings.warn(
        f"{error}\nits reference runs on CUDA; platforms=('cpu',) says that "
        "this is meant, platforms=('cpu', 'cuda') makes it an error",
        CudaStringWarning,
        stacklevel=2,
    )
