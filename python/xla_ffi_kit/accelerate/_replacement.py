"""Puts a rule in the place of JAX's own."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
from jax.interpreters.mlir import LoweringRule, LoweringRuleContext, ir

from xla_ffi_kit import _check, _jax_hooks
from xla_ffi_kit.accelerate import _jax_rules
from xla_ffi_kit.accelerate._rule import Lowered, Rule


def install(rule: Rule, warn: Callable[[str], None]) -> Callable[[], None]:
    """Lowers what `rule` covers by it, and the rest by the rule before it.

    Args:
      rule: of one primitive.
      warn: called with the reason where this JAX has changed.

    Returns:
      What undoes it.

    Raises:
      ChangedJaxError: it cannot be done.
    """

    def wrap(own: LoweringRule) -> LoweringRule:
        def lower(
            ctx: LoweringRuleContext, *operands: ir.Value, **parameters: object
        ) -> Lowered:
            if frozenset(parameters) not in rule.PARAMETERS:
                warn(f"its parameters are {sorted(parameters)}")
            elif _is_covered(rule, ctx, parameters):
                return rule.lower(ctx, *operands, **parameters)
            return own(ctx, *operands, **parameters)

        return lower

    return _jax_rules.replace(rule.primitive(), wrap)


def _is_covered(
    rule: Rule, ctx: LoweringRuleContext, parameters: dict[str, object]
) -> bool:
    avals = _jax_hooks.shaped(ctx.avals_in)
    if rule.TARGET is not None and (
        # An exported program must run where the kit is not.
        _jax_rules.is_exporting(ctx)
        or not _check.is_static(*(a.shape for a in avals))
    ):
        return False
    return rule.covers(avals, **parameters) and (
        not _jax_hooks.xla_may_partition(ctx)
        or rule.partitions(avals, **parameters)
    )


def same_bits(
    rule: Rule, function: Callable[..., object], *arguments: object
) -> bool:
    """Whether `rule` changes no bit of `function(*arguments)`.

    For a rule's self-test: compiles the function with XLA's own code and again
    with the rule, and runs both. The caller must hold the switch's lock, as
    self-tests do.
    """
    want = _run(function, arguments)
    undo = install(rule, lambda reason: None)
    try:
        return _run(function, arguments) == want
    finally:
        undo()


def _run(
    function: Callable[..., object], arguments: tuple[object, ...]
) -> list[bytes]:
    # A new function object, for which JAX has not kept anything compiled.
    compiled = jax.jit(lambda *a: function(*a)).lower(*arguments).compile()
    leaves = jax.tree.leaves(compiled(*arguments))
    return [np.asarray(leaf).tobytes() for leaf in leaves]
