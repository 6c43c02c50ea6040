"""Replaces JAX's own lowerings by the rules that are on in the setting."""

from __future__ import annotations

import contextlib
import functools
import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import jax
from jax.core import ShapedArray
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRule, LoweringRuleContext, ir

from xla_ffi_accelerate import _jax, _self_tests, _setting
from xla_ffi_accelerate._jax import ChangedJaxError, Primitive
from xla_ffi_accelerate._rule import Found, Rule
from xla_ffi_accelerate._setting import Call
from xla_ffi_kit import lowering

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
        if setting is _setting.OFF:
            return self._by_jax(ctx, *operands, **parameters)
        chosen: tuple[str, Rule, Found] | None = None
        reasons: list[str] = []
        for name, rule in self._rules(setting.rules):
            found = _decide(name, rule, ctx, parameters)
            if not isinstance(found, str):
                chosen = name, rule, found
                break
            reasons.append(found)
        if setting.record is not None:
            others = [
                (name, rule, _decide(name, rule, ctx, parameters))
                for name, rule in self._rules(setting.record.others())
                if name not in setting.names
            ]
            avals = lowering.shaped(ctx.avals_in)
            call = Call(self._primitive, avals, parameters, reasons, others)
            setting.record.add(call, chosen and chosen[:2])
        if chosen is None:
            return self._by_jax(ctx, *operands, **parameters)
        _, rule, found = chosen
        LOG.debug("%s -> %s", self._primitive, rule.target or "plain HLO")
        return lower(rule, ctx, *operands, **parameters, **found)

    def _rules(
        self, rules: Iterable[tuple[str, Rule]]
    ) -> Iterator[tuple[str, Rule]]:
        return (r for r in rules if _primitives.get(r[1]) is self._primitive)

    def _by_jax(
        self,
        ctx: LoweringRuleContext,
        *operands: ir.Value,
        **parameters: object,
    ) -> Lowered:
        lowered: Lowered = self._own(ctx, *operands, **parameters)
        return lowered


def lower(
    rule: Rule,
    ctx: LoweringRuleContext,
    *operands: ir.Value,
    **parameters: object,
) -> Lowered:
    """Lowers to the rule's function, for arrays that belong to no mesh."""
    plain = [
        ShapedArray(aval.shape, aval.dtype)
        for aval in lowering.shaped(ctx.avals_in)
    ]
    function = functools.partial(rule.call, **parameters)
    call = mlir.lower_fun(lambda *x: jax.tree.leaves(function(*x)))
    x64 = jax.enable_x64(True) if rule.x64 else contextlib.nullcontext()
    with x64:
        lowered: Lowered = call(ctx.replace(avals_in=plain), *operands)
    return lowered


def install(name: str, rule: Rule) -> None:
    """Makes the rule's primitive ask the setting, unless it does already.

    Warns once for each name if this JAX has changed.
    """
    try:
        primitive = _jax.primitive(rule.primitive)
        own = _jax.own_lowering(primitive)
        if not isinstance(own, _Lowering):
            asking = _Lowering(primitive, own)
            mlir.register_lowering(primitive, asking, platform="cpu")
        _primitives[rule] = primitive
    except ChangedJaxError as error:
        _primitives.pop(rule, None)
        warn(name, str(error))


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
    parameters: dict[str, object],
) -> str | Found:
    """Returns why a rule is not used, or what it needs to know about XLA."""
    if frozenset(parameters) not in rule.params:
        warn(name, f"its parameters are {sorted(parameters)}")
        return "its parameters have changed"
    avals = lowering.shaped(ctx.avals_in)
    if rule.target is not None:
        if _jax.is_exporting(ctx):
            return "an exported program must run without the package"
        if not lowering.is_static(*(a.shape for a in avals)):
            return "its shape is symbolic"
    reason = rule.covers(*avals, **parameters)
    if reason is not None:
        return reason
    if lowering.xla_may_partition(ctx):
        splits = rule.partitions
        if not (splits(*avals, **parameters) if callable(splits) else splits):
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
