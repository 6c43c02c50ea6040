"""Runs a handler on guarded memory, to find what it uses beside its arrays.

XLA calls a function instead of the handler. It passes the handler the same call
frame with copies of operands and results in memory that this module fills and
reads: bytes before and after a result must stay, and no bytes but those of the
operands may decide what the results are.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import mmap
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit._check import Typed
from xla_ffi_kit.library import c_api, rows
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
    """The memory of one operand or result, all of it filled with a byte."""

    size: int
    mark: int
    pages: mmap.mmap = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        whole = _BEFORE + self.size + _BEHIND
        self.pages = mmap.mmap(-1, whole + _RESERVE)
        self._bytes(0, whole)[:] = self.mark

    def _bytes(self, at: int, size: int) -> np.ndarray:
        return np.frombuffer(self.pages, np.uint8, size, at)

    @property
    def address(self) -> int:
        whole = ctypes.c_char.from_buffer(self.pages)
        return ctypes.addressof(whole) + _BEFORE

    @property
    def written(self) -> tuple[int, int]:
        """At least how many bytes were written before and after it."""
        before = np.flatnonzero(self._bytes(0, _BEFORE) != self.mark)
        behind = np.flatnonzero(
            self._bytes(_BEFORE + self.size, _BEHIND) != self.mark
        )
        return (
            _BEFORE - int(before[0]) if before.size else 0,
            int(behind[-1]) + 1 if behind.size else 0,
        )

    def array(self, like: Typed) -> np.ndarray:
        """A copy of its content."""
        content = self._bytes(_BEFORE, self.size).copy()
        return content.view(like.dtype).reshape(like.shape)


class GuardedHandler:
    """A handler with its arrays in guarded memory, under its own target."""

    def __init__(self, target: str, stages: Mapping[str, object]) -> None:
        self.target = f"{target} in guarded memory"
        self.mark = _MARK
        # In bytes; XLA may have a result more, the workspace.
        self.sizes: tuple[Sequence[int], Sequence[int]] = (), ()
        self.memory: list[_Memory] = []  # of the last call's results
        self._operands: list[_Memory] = []
        self._handler = _Handler(rows.address_of(stages["execute"]))
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
        operands, results = _buffers(frame.args), _buffers(frame.rets)
        real = [(b, b.data) for b in (*operands, *results)]
        inputs, outputs = self.sizes
        self._operands = [_Memory(size, self.mark) for size in inputs]
        self.memory = [_Memory(size, self.mark) for size in outputs]
        places = {}  # of the results, one of which may be an operand's alias
        for result, memory in zip(results, self.memory, strict=False):
            places[result.data] = memory
            result.data = memory.address
        for operand, memory in zip(operands, self._operands, strict=True):
            copy = places.get(operand.data, memory)
            if operand.data:
                ctypes.memmove(copy.address, operand.data, memory.size)
            operand.data = copy.address
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
    spec = op.spec
    own = spec.handlers["cpu"]
    guarded: str | DeviceKernel = handler.target
    if isinstance(own, DeviceKernel):
        guarded = own.by(handler.target)
    sizes = spec.advanced.workspace
    own_sizes = {"cpu": sizes["cpu"]} if "cpu" in sizes else {}
    return ffi_op.of_spec(
        dataclasses.replace(
            spec,
            handlers={"cpu": guarded},
            libraries=(),
            if_registered=False,
            advanced=dataclasses.replace(spec.advanced, workspace=own_sizes),
        )
    )


class GuardedCall:
    """A call of an operation, compiled once, in guarded memory.

    Raises LookupError if XLA does not tell where the handler is.
    """

    def __init__(
        self,
        op: FfiOp[Result],
        target: str,
        operands: Sequence[jax.Array],
        attributes: Mapping[str, Any],
    ) -> None:
        self._op = op
        self._operands = operands
        self._handler = _handler_of(target)
        f = functools.partial(_guarded(op, self._handler), **attributes)
        types: Sequence[Typed] = jax.tree.leaves(jax.eval_shape(f, *operands))
        self._types = types
        self._program = jax.jit(f)

    def _run(self, mark: int) -> list[_Memory]:
        handler = self._handler
        handler.mark = mark
        handler.sizes = _sizes(self._operands), _sizes(self._types)
        handler.memory = []
        jax.block_until_ready(self._program(*self._operands))
        return handler.memory

    def overflow(self) -> str | None:
        """Describes what is written beside the results, or None."""
        for i, (memory, t) in enumerate(
            zip(self._run(_MARK), self._types, strict=True)
        ):
            for count, where in zip(
                memory.written, ("before", "behind"), strict=True
            ):
                if count:
                    promised = (
                        "`results`"
                        if self._op.spec.results
                        else ("the reference")
                    )
                    return (
                        f"result {i}: the handler writes at least {count} "
                        f"bytes {where} the {memory.size} bytes of "
                        f"{t.dtype}{list(t.shape)}, which {promised} promises"
                    )
        return None

    def results(self, mark: int) -> list[np.ndarray]:
        """The results; all memory but the operands is filled with a byte."""
        memories = self._run(mark)
        return [
            memory.array(t)
            for memory, t in zip(memories, self._types, strict=True)
        ]


def _sizes(types: Sequence[Typed]) -> list[int]:
    return [t.dtype.itemsize * int(np.prod(t.shape)) for t in types]
