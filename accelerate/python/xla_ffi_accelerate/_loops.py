"""Loops, which XLA may compile to one function, and branches.

XLA's CPU compiler does so if each operation of a step can be in it, and if they
read and write fewer bytes than an option of XLA says. Up to jax 0.10 that is
1,024, which a filter of four states exceeds; later releases have a larger one.

Some of its passes leave the computations of loops and branches as they are, so
that the same operation may have other bits there.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import warnings
from collections.abc import Mapping, Sequence

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Literal
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRule, LoweringRuleContext, ir

from xla_ffi_accelerate import _bodies, _jax, _setting

OPTION = "xla_cpu_small_while_loop_byte_threshold"
# Beyond, a task for each operation is as fast: it may use several threads.
BYTES = 16384
# What XLA allows on releases without the option.
_OWN_BYTES = 1024
# A task, as a part of the time of a custom call. On jaxlib 0.10.2 and one core,
# one more number that a step changes takes 75 ns, and one more call 500 to
# 1,000 ns: 0.07 to 0.15. The most keeps calls out of more loops.
_TASK = 0.15
# XLA hands a program of 1,000 operations or more to another thread, which takes
# as long as a loop of fewer steps gains by what is written out in it.
_FEW_STEPS = 8
SO_FEW_STEPS = "XLA is as fast in a loop of so few steps"
_FLAG = "--xla_backend_extra_options"
_HAS_ROOM = jax.__version_info__ >= (0, 11)


class _Thread(threading.local):
    """What is around the operation that the thread lowers.

    Attributes:
      place: "loop", whatever else is around it; "branch"; or "elsewhere".
      tasks: what a call would make of the innermost loop, if XLA would make one
        function of it without; else 0.
      steps: of all loops around it, together; infinite where that is unknown.
    """

    place = "elsewhere"
    tasks = 0
    steps = 1.0

    def around(self) -> tuple[str, int, bool]:
        """What rules ask for."""
        return self.place, self.tasks, self.steps < _FEW_STEPS


_thread = _Thread()


class _Lowering:
    """JAX's own lowering of a loop or of branches, which knows that it is."""

    def __init__(self, own: LoweringRule, place: str) -> None:
        self._own = own
        self._place = place

    def __call__(
        self,
        ctx: LoweringRuleContext,
        *operands: ir.Value,
        **parameters: object,
    ) -> Sequence[ir.Value]:
        around, steps = _thread.around(), _thread.steps
        if not _setting.current().rules or (
            self._place == "branch" and around[0] != "elsewhere"
        ):
            return self._own(ctx, *operands, **parameters)
        _thread.place = self._place
        try:
            if self._place == "loop":
                _thread.steps *= _steps(parameters)
                _thread.tasks = _tasks(parameters)
            here = _thread.around()
            if here == around:
                return self._own(ctx, *operands, **parameters)
            # What is elsewhere too is lowered once more, for this place.
            with _jax.own_caches(ctx, f"{here}"):
                return self._own(ctx, *operands, **parameters)
        finally:
            _thread.place, _thread.tasks, _ = around
            _thread.steps = steps


def _steps(parameters: Mapping[str, object]) -> float:
    """The most steps of a loop that counts from 0; others may have many."""
    condition = parameters.get("cond_jaxpr")
    if isinstance(condition, ClosedJaxpr) and len(condition.jaxpr.eqns) == 1:
        (test,) = condition.jaxpr.eqns
        end = test.invars[-1]
        if (
            test.primitive.name == "lt"
            and isinstance(end, Literal)
            and np.asarray(end.val).dtype.kind in "iu"
        ):
            return max(float(end.val), 1.0)
    return math.inf


def _tasks(parameters: Mapping[str, object]) -> int:
    """The tasks that a call would make of a loop that is one function."""
    body = parameters.get("body_jaxpr")
    if not isinstance(body, ClosedJaxpr):  # a changed JAX
        return 0
    limit = BYTES if has_room() else _OWN_BYTES
    return _bodies.tasks(body, limit, _is_written_out)


def _is_written_out(
    name: str, avals: Sequence[ShapedArray], parameters: Mapping[str, object]
) -> bool:
    """Whether a rule that is on makes plain HLO of a call in a loop."""
    return any(
        rule.target is None
        and rule.primitive_name == name
        and rule.reason(avals, parameters) is None
        for _, rule in _setting.current().rules
    )


def install() -> None:
    """Lets the others know; on a changed JAX, it does nothing."""
    for path, place in (
        ("jax.lax.while_p", "loop"),
        ("jax.lax.cond_p", "branch"),
    ):
        with contextlib.suppress(_jax.ChangedJaxError):
            primitive = _jax.primitive(path)
            own = _jax.own_lowering(primitive)
            if not isinstance(own, _Lowering):
                lowering = _Lowering(own, place)
                mlir.register_lowering(primitive, lowering, platform="cpu")


def inside() -> bool:
    """Whether the operation that is lowered is in a loop."""
    return _thread.place == "loop"


def few_steps() -> bool:
    """Whether it is in loops that have few steps, all together."""
    return inside() and _thread.steps < _FEW_STEPS


def cost_of_call() -> float:
    """What a custom call costs here; the unit is the time of one elsewhere.

    In a loop that would be one function, it makes a task of each operation.
    """
    return 1 + _TASK * _thread.tasks


def nested() -> bool:
    """Whether it is in a loop or in a branch, or cannot know."""
    return _thread.place != "elsewhere" or not _jax.has_caches()


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
