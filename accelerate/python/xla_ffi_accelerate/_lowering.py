"""Replaces JAX's own lowerings by the rules that are on in the setting."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import jax
from jax.core import ShapedArray
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRule, LoweringRuleContext, ir

from xla_ffi_accelerate import _jax, _operands, _self_tests, _setting
from xla_ffi_accelerate._jax import ChangedJaxError, Primitive
from xla_ffi_accelerate._rule import Found, Reason, Rule, call_with
from xla_ffi_accelerate._setting import Call, Setting
from xla_ffi_kit import extend

Lowered: TypeAlias = Sequence[ir.Value]

LOG = logging.getLogger("xla_ffi_accelerate")
LOG.addHandler(logging.NullHandler())

_primitives: dict[Rule, Primitive] = {}  # those that ask
_reasons: dict[str, dict[str, None]] = {}  # name -> why JAX's own stays


class _Lowering:
    """JAX's own lowering, unless a rule of the setting covers the call.

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
        setting = _setting.current()
        chosen = self._choose(setting, ctx, operands, parameters)
        if chosen is None:
            own: Lowered = self._own(ctx, *operands, **parameters)
            return own
        rule, found = chosen
        LOG.debug("%s -> %s", self._primitive, rule.target or "plain HLO")
        return lower(rule, ctx, *operands, **parameters, **found)

    def _choose(
        self,
        setting: Setting,
        ctx: LoweringRuleContext,
        operands: Sequence[ir.Value],
        parameters: dict[str, object],
    ) -> tuple[Rule, Found] | None:
        """The first rule that covers the call, and what it needs to know."""
        chosen: tuple[str, Rule, Found] | None = None
        reasons: list[str] = []
        for name, rule in self._rules(setting.rules):
            found = _decide(name, rule, ctx, operands, parameters)
            if not isinstance(found, str):
                chosen = name, rule, found
                break
            reasons.append(found)
        if setting.record is not None:
            others = [
                (name, rule, _decide(name, rule, ctx, operands, parameters))
                for name, rule in self._rules(setting.record.others())
                if name not in setting.names
            ]
            avals = extend.shaped(ctx.avals_in)
            call = Call(self._primitive, avals, parameters, reasons, others)
            setting.record.add(call, chosen and chosen[:2])
        return chosen and chosen[1:]

    def _rules(
        self, rules: Iterable[tuple[str, Rule]]
    ) -> Iterator[tuple[str, Rule]]:
        return (r for r in rules if _primitives.get(r[1]) is self._primitive)


def lower(
    rule: Rule,
    ctx: LoweringRuleContext,
    *operands: ir.Value,
    **parameters: object,
) -> Lowered:
    """Lowers to the rule's function, for arrays that belong to no mesh."""
    plain = [
        ShapedArray(aval.shape, aval.dtype)
        for aval in extend.shaped(ctx.avals_in)
    ]
    call = mlir.lower_fun(
        lambda *x: jax.tree.leaves(
            call_with(rule.call, *x, parameters=parameters)
        )
    )
    # A program keeps the types of its tracing, wherever it is lowered.
    wide = _has_wide(ctx)
    with jax.enable_x64(True) if wide else contextlib.nullcontext():
        lowered: Lowered = call(ctx.replace(avals_in=plain), *operands)
    return lowered


_WIDE = ("int64", "uint64", "float64", "complex128")


def _has_wide(ctx: LoweringRuleContext) -> bool:
    """Whether an operand or a result has 64-bit numbers."""
    avals = extend.shaped([*ctx.avals_in, *ctx.avals_out])
    return any(aval.dtype.name in _WIDE for aval in avals)


def install(name: str, rule: Rule) -> None:
    """Makes the rule's primitive ask the setting, unless it does already.

    Warns once for each name if this JAX has changed.
    """
    try:
        _ask(rule, _jax.primitive(rule.primitive))
    except ChangedJaxError as error:
        _primitives.pop(rule, None)
        warn(name, str(error))


def _ask(rule: Rule, primitive: Primitive) -> None:
    asking = _jax.own_lowering(primitive)
    is_new = not isinstance(asking, _Lowering)
    if is_new:
        asking = _Lowering(primitive, asking)
    if is_new or rule.sees_operands:
        # Unless told otherwise, JAX lowers an operation once for all its places
        # in a program, whatever its operands.
        mlir.register_lowering(
            *(primitive, asking, "cpu"), cacheable=not rule.sees_operands
        )
    _primitives[rule] = primitive


def is_installed(rule: Rule) -> bool:
    """Whether the rule's primitive asks, and no self-test has failed."""
    return rule in _primitives and not _self_tests.has_failed(rule)


def reasons(name: str) -> list[str]:
    """Why JAX's own code stays for a name."""
    return list(_reasons.get(name, ()))


def warn(name: str, reason: str) -> None:
    """Warns once for each name that JAX's own code stays."""
    is_first = name not in _reasons
    _reasons.setdefault(name, {})[reason] = None
    if is_first:
        text = (
            f"xla_ffi_accelerate: {name} stays JAX's own, because jax "
            f"{jax.__version__} has changed: {reason}; update "
            "xla_ffi_accelerate"
        )
        LOG.warning(text)
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def _decide(
    name: str,
    rule: Rule,
    ctx: LoweringRuleContext,
    operands: Sequence[ir.Value],
    parameters: dict[str, object],
) -> str | Found:
    """Returns why a rule is not used, or what it needs to know about XLA."""
    unknown = rule.unless_known(parameters)
    if unknown is not None:
        warn(name, unknown)
        return unknown
    avals = extend.shaped(ctx.avals_in)
    if rule.target is not None:
        is_asked_for = name in _setting.current().exported
        if _jax.is_exporting(ctx) and not is_asked_for:
            return "an exported program must run without the package"
        if not extend.is_static(*(a.shape for a in avals)):
            return "its shape is symbolic"
    reason = rule.reason(avals, parameters)
    if reason is None and rule.sees_operands:
        reason = _unless_kept(rule, ctx, operands, parameters)
    if reason is not None:
        return reason
    if extend.xla_may_partition(ctx) and not rule.splits(avals, parameters):
        return "XLA's own code communicates less between several devices"
    trial = _setting.current().trial
    if trial is not None:  # the test itself
        return trial
    found = _self_tests.find(rule, avals, parameters)
    if isinstance(found, _self_tests.Failure):
        if found.is_news:
            warn(name, found.reason)
        return found.reason
    return found


def _unless_kept(
    rule: Rule,
    ctx: LoweringRuleContext,
    operands: Sequence[ir.Value],
    parameters: Mapping[str, object],
) -> Reason:
    """Why the rule is not used of operands that XLA folds into the call."""
    if rule.folds and _operands.are_constants(ctx, operands):
        return "XLA computes it of constants when it compiles"
    if rule.with_pad is None:
        return None
    pad = _operands.source(ctx, operands[0])
    if not isinstance(pad, _operands.Pad):
        return None
    avals = extend.shaped(ctx.avals_in)
    return rule.reason(*rule.with_pad(pad, avals, parameters))
