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
import jax.numpy as jnp
import numpy as np

from xla_ffi_kit import _jax_hooks, ffi_op
from xla_ffi_kit._check import Typed
from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.library import c_api, rows
from xla_ffi_kit.op.spec import DeviceKernel, Result

# Around results and operands. One that copies too much of an operand shows.
_MARKS = 0xA5, 0x5A
_BESIDE = 1 << 16
# Address space around that, which catches what is distant, and takes no memory.
_RESERVE = 1 << 26

_Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


@dataclasses.dataclass
class _Memory:
    """The memory of one operand or result, all of it filled with a byte."""

    size: int
    mark: int
    pages: mmap.mmap = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.pages = mmap.mmap(-1, 2 * _RESERVE + 2 * _BESIDE + self.size)
        self.fill(self.mark)

    def fill(self, mark: int) -> None:
        """Fills it all, and what is beside it, with another byte."""
        self.mark = mark
        self._bytes(-_BESIDE, self.size + 2 * _BESIDE)[:] = mark

    def _bytes(self, at: int, size: int) -> np.ndarray:
        start = _RESERVE + _BESIDE + at
        return np.frombuffer(self.pages, np.uint8, size, start)

    @property
    def address(self) -> int:
        whole = ctypes.c_char.from_buffer(self.pages)
        return ctypes.addressof(whole) + _RESERVE + _BESIDE

    @property
    def written(self) -> tuple[int, int]:
        """At least how many bytes were written before and after it."""
        before = np.flatnonzero(self._bytes(-_BESIDE, _BESIDE) != self.mark)
        behind = np.flatnonzero(self._bytes(self.size, _BESIDE) != self.mark)
        return (
            _BESIDE - int(before[0]) if before.size else 0,
            int(behind[-1]) + 1 if behind.size else 0,
        )

    def array(self, like: Typed) -> np.ndarray:
        """A copy of its content."""
        content = self._bytes(0, self.size).copy()
        size = bits(like)
        if size < 8:
            content = _unpacked(content, size, int(np.prod(like.shape)))
            if jnp.issubdtype(like.dtype, jnp.signedinteger):
                sign = 1 << (size - 1)
                content = (content ^ sign).astype(np.int8) - np.int8(sign)
            if jnp.issubdtype(like.dtype, jnp.integer):
                return content.astype(like.dtype).reshape(like.shape)
        return content.view(like.dtype).reshape(like.shape)


def bits(x: Typed) -> int:
    """How many an element has: XLA's CPU client packs small ones in bytes."""
    if jnp.issubdtype(x.dtype, jnp.integer):
        return int(jnp.iinfo(x.dtype).bits)
    if x.dtype.itemsize == 1 and jnp.issubdtype(x.dtype, jnp.floating):
        return int(jnp.finfo(x.dtype).bits)
    return 8 * x.dtype.itemsize


def _unpacked(content: np.ndarray, size: int, count: int) -> np.ndarray:
    """The elements in bytes, of which the first has the lowest bits."""
    shifts = np.arange(0, 8, size, dtype=np.uint8)
    elements = (content[:, None] >> shifts) & np.uint8((1 << size) - 1)
    return elements.reshape(-1)[:count]


class GuardedHandler:
    """A handler with its arrays in guarded memory, under its own target."""

    def __init__(self, target: str, stages: Mapping[str, object]) -> None:
        self.target = f"{target} in guarded memory"
        self.marks = _MARKS
        # In bytes; XLA may have a result more, the workspace.
        self.sizes: tuple[Sequence[int], Sequence[int]] = (), ()
        self.memory: list[_Memory] = []  # of the last call's results
        self.operands: list[_Memory] = []
        self.keeps_places = False  # of the last call's operands and results
        self._handler = _Handler(rows.address_of(stages["execute"]))
        self._callback = _Handler(self._execute)  # XLA keeps the address
        address = ctypes.cast(self._callback, ctypes.c_void_p).value
        stage = {"execute": jax.ffi.pycapsule(address)}
        jax.ffi.register_ffi_target(self.target, {**stages, **stage}, "cpu")

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
        if self.keeps_places:
            for memory in self.memory:
                memory.fill(self.marks[0])
        else:
            self.memory = [_Memory(size, self.marks[0]) for size in outputs]
            self.operands = [_Memory(size, self.marks[1]) for size in inputs]
        places = {}  # of the results, one of which may be an operand's alias
        for result, memory in zip(results, self.memory, strict=False):
            places[result.data] = memory
            result.data = memory.address
        for operand, memory in zip(operands, self.operands, strict=True):
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
    handler_of_op = spec.handlers["cpu"]
    guarded: str | DeviceKernel = handler.target
    if isinstance(handler_of_op, DeviceKernel):
        guarded = handler_of_op.by(handler.target)
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
        # Of the results and operands of the last call.
        self.memory: tuple[_Memory, ...] = ()

    def results(
        self,
        mark: int | None = None,
        operands: Sequence[jax.Array] = (),
        keeps_places: bool = False,
    ) -> list[np.ndarray]:
        """The results; all memory but the operands is filled with a byte.

        Args:
          mark: the byte; by default one around results, another elsewhere.
          operands: others of the same types.
          keeps_places: whether all arrays are where the last call had them.
        """
        handler = self._handler
        handler.marks = _MARKS if mark is None else (mark, mark)
        handler.sizes = _sizes(self._operands), _sizes(self._types)
        handler.keeps_places = keeps_places
        if not keeps_places:
            handler.memory = []
        jax.block_until_ready(self._program(*(operands or self._operands)))
        self.memory = (*handler.memory, *handler.operands)
        return [
            memory.array(t)
            for memory, t in zip(handler.memory, self._types, strict=True)
        ]

    def overflow(self) -> str | None:
        """Describes what the last call wrote beside its results, or None."""
        for i, (memory, t) in enumerate(
            zip(self.memory, self._types, strict=False)
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


def _sizes(types: Sequence[Typed]) -> list[int]:
    return [-(-bits(t) * int(np.prod(t.shape)) // 8) for t in types]
