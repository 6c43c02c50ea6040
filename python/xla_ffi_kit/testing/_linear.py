"""Says whether an operation is linear as its spec says that it is."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

import jax
import jax.numpy as jnp

from xla_ffi_kit.testing import _case, _programs
from xla_ffi_kit.testing._runner import Call, Runner


def contradiction(run: Runner) -> str:
    """What `linear=` or `bilinear=` says and the reference is not, or ""."""
    spec = run.spec
    names = [spec.operand_names[i] for i in spec.linear]
    if len(names) < 2:
        return ""
    if spec.is_bilinear:
        ones = [_call(run, {i}) for i in spec.linear]
        if all(not jnp.any(y) for ys in ones for y in ys):
            return ""
        first, second = names
        return (
            f"; bilinear={tuple(names)} says that op(0, {second}) and "
            f"op({first}, 0) are 0, which the {run.standard}'s are not"
        )
    both = _call(run, spec.linear)
    parts = [_call(run, {i}) for i in spec.linear]
    if run.agree([sum(part) for part in zip(*parts, strict=True)], both):
        return ""
    zeros = [
        ", ".join(n if n == name else "0" for n in names) for name in names
    ]
    sum_of_calls = " + ".join(f"op({values})" for values in zeros)
    return (
        f"; linear={tuple(names)} says that results are linear together, that "
        f"op({', '.join(names)}) is {sum_of_calls}, which the {run.standard} "
        "is not; if they are linear in each while the other is fixed: "
        f"bilinear={tuple(names[:2])}"
    )


def _call(run: Runner, kept: Collection[int]) -> list[jax.Array]:
    """The reference's floats, with zeros for linear operands but `kept`."""
    call = Call(_programs.eager)
    f, x = run.arguments(call, reference=True)
    operands = [
        v if i in kept or i not in run.spec.linear else jnp.zeros_like(v)
        for i, v in enumerate(cast(tuple[jax.Array, ...], x))
    ]
    results = jax.tree.leaves(call.program(f, operands))
    return [y for y in results if _case.is_inexact(y)]
