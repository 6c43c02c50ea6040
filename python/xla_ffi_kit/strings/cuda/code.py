"""Compiles kernels for the GPUs of this machine, or finds them in the cache."""

from __future__ import annotations

import base64
import functools
import hashlib
import pathlib
from collections.abc import Sequence

import jax

from xla_ffi_kit.compile import cache, headers
from xla_ffi_kit.strings.cuda import nvrtc
from xla_ffi_kit.strings.cuda.source import Kernel

# An exported program has machine code for these and for this machine's GPUs.
# They are the defaults of `xla_ffi_library()`.
_EXPORTED = (80, 90, 100)


def of(
    name: str, kernel: Kernel, options: Sequence[str], for_export: bool
) -> tuple[str, str]:
    """Returns the kernel's symbol, and its code for each GPU for the handler.

    Args:
      name: the name of the operation.
      kernel: the program.
      options: options for NVRTC.
      for_export: whether the program may run on other machines.
    """
    compiler = nvrtc.get()
    gpus = local_gpus()
    if for_export or not gpus:
        known = [n for n in _EXPORTED if n in compiler.architectures]
        wanted = nvrtc.Architectures(
            tuple(sorted({*known, *gpus} & {*compiler.architectures})),
            max(known),
        )
    else:
        wanted = nvrtc.architectures_for(name, gpus, compiler.architectures)
    lines, symbol = [], ""
    for architecture in wanted.names():
        symbol, code = _compiled(name, kernel, tuple(options), architecture)
        lines.append(f"{architecture} {code}")
    return symbol, "\n".join(lines)


def local_gpus() -> tuple[int, ...]:
    """Returns the compute capabilities of this process's GPUs: 90 for 9.0."""
    try:
        devices = jax.local_devices(backend="cuda")
    except RuntimeError:
        return ()
    return tuple(
        sorted({int(d.compute_capability.replace(".", "")) for d in devices})
    )


@functools.lru_cache(maxsize=512)
def _compiled(
    name: str, kernel: Kernel, options: tuple[str, ...], architecture: str
) -> tuple[str, str]:
    """The kernel's symbol, and its code in base64."""
    compiler, found = nvrtc.get(), headers.of_cuda()
    key = hashlib.sha256()
    for part in (
        *("cuda", compiler.version, architecture, *options),
        *(kernel.hashed(), kernel.expression),
        *(f"{header}\0{text}" for header, text in found.items()),
    ):
        data = part.encode(errors="surrogateescape")
        key.update(hashlib.sha256(data).digest())

    def compile_file(file: pathlib.Path) -> list[str]:
        symbol, code = compiler.compile(
            name, kernel.text, kernel.expression, found, architecture, options
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
