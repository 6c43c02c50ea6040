"""Puts rules in the place of JAX's own, where the setting has them."""

from __future__ import annotations

import warnings

import jax
import jaxlib
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRule, LoweringRuleContext, ir

from xla_ffi_accelerate import _jax, _jax_rules, _setting
from xla_ffi_accelerate._jax import Primitive
from xla_ffi_accelerate._jax_rules import ChangedJaxError
from xla_ffi_accelerate._rule import Lowered, Rule, SelfTested
from xla_ffi_kit import lowering

_primitives: dict[Rule, Primitive] = {}  # those that ask
_agrees: dict[Rule, bool] = {}  # what self-tests have found
_reasons: dict[str, dict[str, None]] = {}  # name -> why JAX's own stays


class _Lowering:
    """JAX's own lowering, but what a rule of the setting covers by that rule.

    A primitive gets it once and keeps it.
    """

    def __init__(self, primitive: Primitive, own: LoweringRule) -> None:
        self._primitive = primitive
        self._own = own

    def __call__(
        self,
        ctx: LoweringRuleContext,
        *operands: ir.Value,
        **parameters: object,
    ) -> Lowered:
        for name, rule in _setting.current().rules:
            if _primitives.get(rule) is not self._primitive:
                continue
            if frozenset(parameters) not in rule.PARAMETERS:
                warn(name, f"its parameters are {sorted(parameters)}")
            elif _is_covered(rule, ctx, parameters) and _has_passed(name, rule):
                return rule.lower(ctx, *operands, **parameters)
        lowered: Lowered = self._own(ctx, *operands, **parameters)
        return lowered


def install(name: str, rule: Rule) -> None:
    """Makes the rule's primitive ask the setting, unless it does already.

    Warns once of the name if this JAX has changed.
    """
    try:
        primitive = rule.primitive()
        own = _jax_rules.own(primitive)
        if not isinstance(own, _Lowering):
            lowering = _Lowering(primitive, own)
            mlir.register_lowering(primitive, lowering, platform="cpu")
        _primitives[rule] = primitive
    except ChangedJaxError as error:
        _primitives.pop(rule, None)
        warn(name, str(error))


def is_installed(rule: Rule) -> bool:
    """Whether the rule's primitive asks, and no self-test has failed."""
    return rule in _primitives and _agrees.get(rule, True)


def reasons(name: str) -> list[str]:
    """Why JAX's own code stays, of a name."""
    return list(_reasons.get(name, ()))


def warn(name: str, reason: str) -> None:
    """Says once of each name that JAX's own code stays."""
    is_first = name not in _reasons
    _reasons.setdefault(name, {})[reason] = None
    if is_first:
        warnings.warn(
            f"xla_ffi_accelerate: {name} stays JAX's own, because jax "
            f"{jax.__version__} has changed: {reason}; update xla_ffi_kit",
            RuntimeWarning,
            stacklevel=2,
        )


def _is_covered(
    rule: Rule, ctx: LoweringRuleContext, parameters: dict[str, object]
) -> bool:
    avals = lowering.shaped(ctx.avals_in)
    if rule.TARGET is not None and (
        # An exported program must run where the kit is not.
        _jax_rules.is_exporting(ctx)
        or not lowering.is_static(*(a.shape for a in avals))
    ):
        return False
    return rule.covers(avals, **parameters) and (
        not lowering.xla_may_partition(ctx)
        or rule.partitions(avals, **parameters)
    )


def _has_passed(name: str, rule: Rule) -> bool:
    """Whether a rule's self-test, on a release not known, agrees.

    It runs when the rule is first wanted, for JAX has started its backend then.
    """
    if not isinstance(rule, SelfTested) or not name:  # or is being tested
        return True
    if jaxlib.__version__ in rule.VERIFIED:
        return True
    if rule not in _agrees:
        if not _jax.backend_is_up():
            return False  # a program that is lowered for elsewhere
        reason = "XLA computes in another order"
        try:
            _agrees[rule] = rule.self_test()
        except Exception as error:
            _agrees[rule] = False
            reason = f"the self-test of {type(rule).__name__}: {error!r}"
        if not _agrees[rule]:
            warn(name, reason)
    return _agrees[rule]
