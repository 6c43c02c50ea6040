"""Finds, loads and calls NVRTC, which compiles CUDA without a toolkit.

JAX's CUDA wheels require it: `nvidia-cuda-nvrtc-cu12` for CUDA 12, and
`nvidia-cuda-nvrtc` for CUDA 13. Nothing is loaded before something is compiled.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import importlib.metadata
import importlib.util
import pathlib
import re
from collections.abc import Mapping, Sequence

from xla_ffi_kit.compile.compiler import shown_below
from xla_ffi_kit.errors import BuildError, NoCompilerError

# CUDA's major version -> where its wheel has the library below "nvidia", what
# the wheel is called, and JAX's plugin that needs it.
_PLACES = {
    13: ("cu13/lib/libnvrtc.so.13", "nvidia-cuda-nvrtc", "jax-cuda13-plugin"),
    12: (
        "cuda_nvrtc/lib/libnvrtc.so.12",
        "nvidia-cuda-nvrtc-cu12",
        "jax-cuda12-plugin",
    ),
}
_OPTIONS = ("--std=c++20", "--device-as-default-execution-space")


class Nvrtc:
    """The library, loaded.

    https://docs.nvidia.com/cuda/nvrtc

    Attributes:
      path: where it is.
      version: "13.0".
    """

    def __init__(self, path: str) -> None:
        self.path = path
        # NVRTC opens this library by its name alone, which the loader finds
        # nowhere in a wheel, but among the libraries that are loaded already.
        beside = pathlib.Path(path).parent.glob("libnvrtc-builtins.so.*")
        try:
            for builtins in beside:
                ctypes.CDLL(str(builtins))
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise NoCompilerError(
                f"NVRTC, which compiles CUDA in strings, cannot be loaded: "
                f"{error}"
            ) from None
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        numbers = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", *map(ctypes.byref, numbers))
        self.version = ".".join(str(n.value) for n in numbers)

    @functools.cached_property
    def architectures(self) -> tuple[int, ...]:
        """Compute capabilities that it compiles for, such as 90 for 9.0."""
        count = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        found = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", found)
        return tuple(sorted(found))

    def compile(
        self,
        name: str,
        text: str,
        kernel: str,
        headers: Mapping[str, str],
        architecture: str,
        options: Sequence[str],
    ) -> tuple[str, bytes]:
        """Machine code for "sm_90", PTX for "compute_90"; the kernel's symbol.

        Args:
          name: of the operation, for errors.
          text: the program.
          kernel: what the kernel's address is called in it.
          headers: what `#include` finds.
          architecture: what to compile for.
          options: after the kit's own.

        Raises:
          BuildError: it does not compile: with the compiler's first error.
        """
        program = ctypes.c_void_p()
        self._call(
            "nvrtcCreateProgram",
            ctypes.byref(program),
            text.encode(errors="surrogateescape"),
            f"<kernel of {name}>".encode(),
            ctypes.c_int(len(headers)),
            _strings(headers.values()),
            _strings(headers),
        )
        try:
            expression = kernel.encode()
            self._call("nvrtcAddNameExpression", program, expression)
            every = [f"--gpu-architecture={architecture}", *_OPTIONS, *options]
            status = self._library.nvrtcCompileProgram(
                program, ctypes.c_int(len(every)), _strings(every)
            )
            if status != 0:
                log = self._get(program, "ProgramLog").rstrip(b"\0")
                said = log.decode(errors="replace")
                raise BuildError(
                    f"{name}: does not compile for CUDA: "
                    f"{first_error(said) or self._explain(status)}"
                )
            symbol = ctypes.c_char_p()
            self._call(
                "nvrtcGetLoweredName",
                program,
                expression,
                ctypes.byref(symbol),
            )
            is_ptx = architecture.startswith("compute_")
            code = self._get(program, "PTX" if is_ptx else "CUBIN")
            return (symbol.value or b"").decode(), code
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _get(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        found = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{what}", program, found)
        return found.raw

    def _call(self, function: str, *arguments: object) -> None:
        status = getattr(self._library, function)(*arguments)
        if status != 0:
            raise BuildError(f"{function}: {self._explain(status)}")

    def _explain(self, status: int) -> str:
        text: bytes = self._library.nvrtcGetErrorString(status)
        return text.decode()


def _strings(texts: object) -> ctypes.Array[ctypes.c_char_p]:
    encoded = [t.encode(errors="surrogateescape") for t in texts]  # type: ignore
    return (ctypes.c_char_p * len(encoded))(*encoded)


def first_error(log: str) -> str:
    """Returns the first error with its lines, or "" if there is none."""
    lines = log.splitlines()
    for i, line in enumerate(lines):
        if re.search(r"\berror:", line):
            return "\n".join([line, *shown_below(lines[i + 1 :])])
    return "\n".join(lines[-5:])


@functools.cache
def get() -> Nvrtc:
    """Returns the NVRTC that JAX's plugin needs.

    Raises:
      NoCompilerError: it is missing, or of another major version.
    """
    return Nvrtc(find())


def find() -> str:
    """Returns where NVRTC is, without loading anything."""
    plugins = [n for n, place in _PLACES.items() if _is_installed(place[2])]
    folders = _folders()
    # Without a plugin a program is compiled for another machine.
    for major in plugins or list(_PLACES):
        for folder in folders:
            path = folder / _PLACES[major][0]
            if path.exists():
                return str(path)
    for major in plugins:
        # JAX with CUDA of the machine's own: [cuda12-local], [cuda13-local].
        if _on_the_machine(f"libnvrtc.so.{major}"):
            return f"libnvrtc.so.{major}"
    if not plugins:
        raise NoCompilerError(
            "there is no NVRTC, which compiles CUDA in strings; `pip install "
            f"{_PLACES[13][1]}`, or jax[cuda13]"
        )
    wanted = plugins[0]
    others = [
        str(n)
        for n, (place, _, _) in _PLACES.items()
        if any((folder / place).exists() for folder in folders)
    ]
    only = f" (only that of CUDA {others[0]})" if others else ""
    raise NoCompilerError(
        f"there is no NVRTC of CUDA {wanted}{only}, which compiles CUDA in "
        f"strings for {_PLACES[wanted][2]}; `pip install {_PLACES[wanted][1]}`"
    )


def is_installed() -> bool:
    """Whether an NVRTC is installed."""
    try:
        find()
    except NoCompilerError:
        return False
    return True


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _on_the_machine(name: str) -> bool:
    """Whether the dynamic linker finds a library of another toolkit."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _folders() -> list[pathlib.Path]:
    """The folders of the namespace package `nvidia`, which has no code."""
    found = importlib.util.find_spec("nvidia")
    places = found.submodule_search_locations if found else None
    return [pathlib.Path(place) for place in places or ()]


@dataclasses.dataclass(frozen=True)
class Architectures:
    """The GPUs that a kernel is compiled for.

    Attributes:
      machine: compute capabilities to make machine code for.
      ptx: one to make PTX for; None for none.
    """

    machine: tuple[int, ...]
    ptx: int | None = None

    def names(self) -> list[str]:
        """NVRTC's names of the architectures."""
        ptx = [] if self.ptx is None else [f"compute_{self.ptx}"]
        return [*(f"sm_{n}" for n in self.machine), *ptx]


def architectures_for(
    name: str, gpus: Sequence[int], supported: Sequence[int]
) -> Architectures:
    """Returns what to compile for GPUs of these compute capabilities.

    A GPU that is newer than NVRTC gets PTX for the newest that NVRTC knows.
    """
    old = [n for n in gpus if n < min(supported)]
    if old:
        raise BuildError(
            f"{name}: expected a GPU of compute capability "
            f"{min(supported) / 10} or newer, as NVRTC compiles for, got "
            f"{old[0] / 10}; use JAX with an older CUDA"
        )
    machine = tuple(sorted({n for n in gpus if n in supported}))
    others = [n for n in gpus if n not in supported]
    older = [n for n in supported if others and n < min(others)]
    return Architectures(machine, max(older) if older else None)
