"""Loops that XLA compiles to one function.

XLA's CPU compiler does so if each operation of a step can be in it, and if they
read and write fewer bytes than an option of XLA says. Up to jax 0.10 that is
1,024, which a filter of four states exceeds; later releases have a larger one.
"""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Sequence

import jax
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRule, LoweringRuleContext, ir

from xla_ffi_accelerate import _jax

OPTION = "xla_cpu_small_while_loop_byte_threshold"
# Beyond, a task for each operation is as fast: it may use several threads.
BYTES = 16384
_FLAG = "--xla_backend_extra_options"
_HAS_ROOM = jax.__version_info__ >= (0, 11)


class _Thread(threading.local):
    """The number of loops around the operation that the thread lowers."""

    depth = 0


_thread = _Thread()


class _Lowering:
    """JAX's own lowering of a loop, which knows that it is one."""

    def __init__(self, own: LoweringRule) -> None:
        self._own = own

    def __call__(
        self,
        ctx: LoweringRuleContext,
        *operands: ir.Value,
        **parameters: object,
    ) -> Sequence[ir.Value]:
        _thread.depth += 1
        try:
            lowered: Sequence[ir.Value] = self._own(
                ctx, *operands, **parameters
            )
        finally:
            _thread.depth -= 1
        return lowered


def install() -> None:
    """Lets `inside` know about loops; on a changed JAX, it does nothing."""
    with contextlib.suppress(_jax.ChangedJaxError):
        loop = _jax.primitive("jax.lax.while_p")
        own = _jax.own_lowering(loop)
        if not isinstance(own, _Lowering):
            mlir.register_lowering(loop, _Lowering(own), platform="cpu")


def inside() -> bool:
    """Whether the operation that is lowered is in a loop.

    A function that is called in a loop and elsewhere is lowered once, for where
    it is met first.
    """
    return _thread.depth > 0


def has_room() -> bool:
    """Whether loops of more than 1,024 bytes are made one function of."""
    return _HAS_ROOM or is_widened()


def is_widened() -> bool:
    """Whether XLA's option for loops is set."""
    return OPTION in _flags()


def widen() -> None:
    """Sets the option, which XLA reads once, when JAX starts its backend.

    Warns if it has already.
    """
    if has_room():
        return
    flag = f"{_FLAG}={OPTION}={BYTES}"
    if _jax.backend_is_up():
        warnings.warn(
            'xla_ffi_accelerate: "loops" writes small products out, but cannot '
            "set XLA's option for loops any more, because JAX has started; "
            f"enable it before the first array, or set XLA_FLAGS={flag}",
            RuntimeWarning,
            stacklevel=3,
        )
        return
    os.environ["XLA_FLAGS"] = f"{_flags()} {flag}".strip()


def _flags() -> str:
    return os.environ.get("XLA_FLAGS", "")
