"""Compiles kernels for GPUs by NVRTC, or takes them from the cache.

NVRTC compiles CUDA without a toolkit. JAX's CUDA wheels require it:
`nvidia-cuda-nvrtc-cu12` for CUDA 12, and `nvidia-cuda-nvrtc` for CUDA 13.
Nothing is loaded before something is compiled.
"""

from __future__ import annotations

import base64
import ctypes
import functools
import hashlib
import importlib.metadata
import importlib.util
import pathlib
from collections.abc import Mapping, Sequence

import jax

from xla_ffi_kit.compile import cache, headers, messages
from xla_ffi_kit.errors import BuildError, NoCompilerError
from xla_ffi_kit.strings.cuda.source import CudaSource

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
_OPTIONS = ("--std=c++17", "--device-as-default-execution-space")
# An exported program has machine code for these and for this machine's GPUs.
# They are the defaults of `xla_ffi_library()`.
_EXPORTED = (80, 90, 100)


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
        numbers = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", numbers)
        return tuple(sorted(numbers))

    def compile(
        self,
        name: str,
        source: CudaSource,
        headers: Mapping[str, str],
        architecture: str,
        options: Sequence[str],
    ) -> tuple[str, bytes]:
        """Machine code for "sm_90", PTX for "compute_90"; the kernel's symbol.

        Args:
          name: of the operation, for errors.
          source: the program with the kernel.
          headers: name -> content of what `#include` finds.
          architecture: what to compile for.
          options: after the kit's own.

        Raises:
          BuildError: it does not compile: with the compiler's first error.
        """
        program = ctypes.c_void_p()
        self._call(
            "nvrtcCreateProgram",
            ctypes.byref(program),
            source.text.encode(errors="surrogateescape"),
            f"<kernel of {name}>".encode(),
            ctypes.c_int(len(headers)),
            _strings(headers.values()),
            _strings(headers),
        )
        try:
            expression = source.expression.encode()
            self._call("nvrtcAddNameExpression", program, expression)
            options = [
                f"--gpu-architecture={architecture}",
                *_OPTIONS,
                *options,
            ]
            status = self._library.nvrtcCompileProgram(
                program, ctypes.c_int(len(options)), _strings(options)
            )
            if status != 0:
                log = self._get(program, "ProgramLog").rstrip(b"\0")
                first = messages.first_nvrtc_error(log.decode(errors="replace"))
                raise BuildError(
                    f"{name}: does not compile for CUDA: "
                    f"{first or self._error_string(status)}"
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
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{what}", program, buffer)
        return buffer.raw

    def _call(self, function: str, *arguments: object) -> None:
        status = getattr(self._library, function)(*arguments)
        if status != 0:
            raise BuildError(f"{function}: {self._error_string(status)}")

    def _error_string(self, status: int) -> str:
        text: bytes = self._library.nvrtcGetErrorString(status)
        return text.decode()


def _strings(texts: object) -> ctypes.Array[ctypes.c_char_p]:
    encoded = [t.encode(errors="surrogateescape") for t in texts]  # type: ignore
    return (ctypes.c_char_p * len(encoded))(*encoded)


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
    major = plugins[0]
    others = [
        str(n)
        for n, (place, _, _) in _PLACES.items()
        if any((folder / place).exists() for folder in folders)
    ]
    only = f" (only that of CUDA {others[0]})" if others else ""
    raise NoCompilerError(
        f"there is no NVRTC of CUDA {major}{only}, which compiles CUDA in "
        f"strings for {_PLACES[major][2]}; `pip install {_PLACES[major][1]}`"
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
    package = importlib.util.find_spec("nvidia")
    places = package.submodule_search_locations if package else None
    return [pathlib.Path(place) for place in places or ()]


def architectures_for(
    name: str, gpus: Sequence[int], supported: Sequence[int]
) -> list[str]:
    """NVRTC's names of what to compile for GPUs of these compute capabilities.

    A GPU that is newer than NVRTC gets PTX for the newest that NVRTC knows.
    """
    old = [n for n in gpus if n < min(supported)]
    if old:
        raise BuildError(
            f"{name}: expected a GPU of compute capability "
            f"{min(supported) / 10} or newer, as NVRTC compiles for, got "
            f"{old[0] / 10}; use JAX with an older CUDA"
        )
    names = [f"sm_{n}" for n in sorted({*gpus} & {*supported})]
    newer = [n for n in gpus if n not in supported]
    if newer:
        ptx = max(n for n in supported if n < min(newer))
        names.append(f"compute_{ptx}")
    return names


def local_gpus() -> tuple[int, ...]:
    """Returns the compute capabilities of this process's GPUs: 90 for 9.0."""
    try:
        devices = jax.local_devices(backend="cuda")
    except RuntimeError:
        return ()
    return tuple(
        sorted({int(d.compute_capability.replace(".", "")) for d in devices})
    )


def compile_for_gpus(
    name: str, source: CudaSource, options: Sequence[str], for_export: bool
) -> tuple[str, str]:
    """Returns the kernel's symbol, and its code for each GPU for the handler.

    Args:
      name: the name of the operation.
      source: the program with the kernel.
      options: options for NVRTC.
      for_export: whether the program may run on other machines.

    Raises:
      BuildError: it does not compile, or a GPU is too old for NVRTC.
      NoCompilerError: NVRTC is missing.
    """
    compiler = get()
    gpus = local_gpus()
    if for_export or not gpus:
        exported = [n for n in _EXPORTED if n in compiler.architectures]
        machine = sorted({*exported, *gpus} & {*compiler.architectures})
        architectures = [f"sm_{n}" for n in machine]
        architectures.append(f"compute_{max(exported)}")
    else:
        architectures = architectures_for(name, gpus, compiler.architectures)
    lines, symbol = [], ""
    for architecture in architectures:
        symbol, code = _compiled(name, source, tuple(options), architecture)
        lines.append(f"{architecture} {code}")
    return symbol, "\n".join(lines)


@functools.lru_cache(maxsize=512)
def _compiled(
    name: str, source: CudaSource, options: tuple[str, ...], architecture: str
) -> tuple[str, str]:
    """The kernel's symbol, and its code in base64."""
    compiler, files = get(), headers.of_cuda()
    key = hashlib.sha256()
    for part in (
        *("cuda", compiler.version, architecture, *options),
        *(source.hashed(), source.expression),
        *(f"{header}\0{text}" for header, text in files.items()),
    ):
        data = part.encode(errors="surrogateescape")
        key.update(hashlib.sha256(data).digest())

    def compile_file(file: pathlib.Path) -> list[str]:
        symbol, code = compiler.compile(
            name, source, files, architecture, options
        )
        file.write_bytes(symbol.encode() + b"\n" + code)
        return []

    while True:
        entry = cache.get(
            key.hexdigest()[:32], name, compile_file, suffix=".cubin"
        )
        try:
            content = entry.library.read_bytes()
        except FileNotFoundError:
            continue  # another process has cleared the cache
        symbol, _, code = content.partition(b"\n")
        return symbol.decode(), base64.b64encode(code).decode()
