"""Runs a handler on guarded memory, to find what it writes beside results.

XLA calls a function instead of the handler. It passes the handler the same call
frame with other results, and checks the bytes before and after each of them.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import mmap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import jax
import numpy as np

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit._check import Typed
from xla_ffi_kit.library import c_api, capsules
from xla_ffi_kit.primitive import ffi_op
from xla_ffi_kit.primitive.device_kernel import DeviceKernel
from xla_ffi_kit.primitive.ffi_op import FfiOp
from xla_ffi_kit.primitive.spec import Result

_MARK = 0xA5
_BEFORE = mmap.PAGESIZE
_BEHIND = 1 << 16
# Address space after that, which catches distant writes and takes no memory.
_RESERVE = 1 << 26

_Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


@dataclasses.dataclass
class _Memory:
    """The memory of one result."""

    size: int
    pages: mmap.mmap = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.pages = mmap.mmap(-1, _BEFORE + self.size + _BEHIND + _RESERVE)
        self._bytes(0, _BEFORE)[:] = _MARK
        self._bytes(_BEFORE + self.size, _BEHIND)[:] = _MARK

    def _bytes(self, at: int, size: int) -> np.ndarray:
        return np.frombuffer(self.pages, np.uint8, size, at)

    @property
    def address(self) -> int:
        whole = ctypes.c_char.from_buffer(self.pages)
        return ctypes.addressof(whole) + _BEFORE

    @property
    def written(self) -> tuple[int, int]:
        """At least how many bytes were written before and after it."""
        before = np.flatnonzero(self._bytes(0, _BEFORE) != _MARK)
        behind = np.flatnonzero(
            self._bytes(_BEFORE + self.size, _BEHIND) != _MARK
        )
        return (
            _BEFORE - int(before[0]) if before.size else 0,
            int(behind[-1]) + 1 if behind.size else 0,
        )


class GuardedHandler:
    """A handler with results in guarded memory, under a target of its own."""

    def __init__(self, target: str, stages: Mapping[str, object]) -> None:
        self.target = f"{target} in guarded memory"
        self.sizes: Sequence[int] = ()  # of the results, in bytes
        self.memory: list[_Memory] = []  # of the last call
        self._handler = _Handler(capsules.address_of(stages["execute"]))
        self._callback = _Handler(self._execute)  # XLA keeps the address
        address = ctypes.cast(self._callback, ctypes.c_void_p).value
        own = {"execute": jax.ffi.pycapsule(address)}
        jax.ffi.register_ffi_target(self.target, {**stages, **own}, "cpu")

    def _execute(self, address: int) -> int | None:
        frame = c_api.CallFrame.from_address(address)
        extension = frame.extension_start
        if extension and (
            c_api.MetadataExtension.from_address(extension).type
            == c_api.METADATA_EXTENSION
        ):
            return self._call(address)
        self.memory = [_Memory(size) for size in self.sizes]
        operands = _buffers(frame.args)
        results = _buffers(frame.rets)
        real = [(b, b.data) for b in (*operands, *results)]
        for result, memory in zip(results, self.memory, strict=False):
            place, size = result.data, memory.size
            for operand in operands:  # whose alias the result is
                if operand.data == place and place:
                    ctypes.memmove(memory.address, place, size)
                    operand.data = memory.address
            result.data = memory.address
        error = self._call(address)
        for buffer, data in real:
            buffer.data = data
        return error

    def _call(self, address: int) -> int | None:
        error: int | None = self._handler(address)
        return error


def _buffers(values: c_api.Args) -> list[c_api.Buffer]:
    addresses = (ctypes.c_void_p * values.size).from_address(
        values.values or ctypes.addressof(values)
    )
    return [c_api.Buffer.from_address(a or 0) for a in addresses]


@functools.cache
def _handler_of(target: str) -> GuardedHandler:
    stages = _jax_hooks.registered_stages(target, "cpu")
    if stages is None:
        raise LookupError(target)
    return GuardedHandler(target, stages)


@functools.cache
def _guarded(op: FfiOp[Result], handler: GuardedHandler) -> FfiOp[Result]:
    """The operation on the guarded handler."""
    own = op.handlers["cpu"]
    guarded: str | DeviceKernel = handler.target
    if isinstance(own, DeviceKernel):
        guarded = own.by(handler.target)
    options = op.options | {"handlers": {"cpu": guarded}}
    options["libraries"] = ()
    options["workspace"] = {
        platform: size
        for platform, size in op.workspace.items()
        if platform == "cpu"
    }
    if op.reference is not None:
        copy = FfiOp(
            op.name, op.reference, kernel_axes=op.kernel_axes, **options
        )
    else:
        results = cast(Callable[..., Typed], op.results)  # or a tuple of them
        copy = FfiOp(
            op.name, results=results, kernel_axes=op.kernel_axes, **options
        )
    ffi_op.forget(copy)
    return copy


def overflow(
    op: FfiOp[Result],
    target: str,
    operands: Sequence[jax.Array],
    attributes: Mapping[str, Any],
) -> str | None:
    """Calls an operation; describes writes beside its results, or None.

    Raises LookupError if XLA does not tell where the handler is.
    """
    handler = _handler_of(target)
    f = functools.partial(_guarded(op, handler), **attributes)
    types: Sequence[Typed] = jax.tree.leaves(jax.eval_shape(f, *operands))
    handler.sizes = [t.dtype.itemsize * int(np.prod(t.shape)) for t in types]
    jax.block_until_ready(jax.jit(f)(*operands))
    for i, (memory, t) in enumerate(zip(handler.memory, types, strict=True)):
        for count, where in zip(
            memory.written, ("before", "behind"), strict=True
        ):
            if count:
                return (
                    f"result {i}: the handler writes at least {count} bytes "
                    f"{where} the {memory.size} bytes of "
                    f"{t.dtype}{list(t.shape)}, which "
                    f"{'`results`' if op.results else 'the reference'} promises"
                )
    return None
