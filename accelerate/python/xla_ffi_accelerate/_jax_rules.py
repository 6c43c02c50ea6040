"""Reading JAX's primitives, and their lowering rules for the CPU.

`register_lowering` is public, but there is no public way to read the rule it
replaces. That goes through the two tables that `jax.interpreters.mlir` has
exported under one name since before jax 0.8.1.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import cast

import jax
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRule, LoweringRuleContext

from xla_ffi_accelerate._jax import Primitive


class ChangedJaxError(RuntimeError):
    """This JAX does not have what replacing a lowering rule needs."""


def primitive(name: str, home: ModuleType = jax.lax) -> Primitive:
    """JAX's primitive `<home>.<name>`."""
    found = getattr(home, name, None)
    if not isinstance(found, Primitive):
        raise ChangedJaxError(f"{home.__name__} has no primitive {name}")
    return found


@functools.cache
def lowered_primitive(name: str) -> Primitive:
    """JAX's primitive of that name, by its lowering rule.

    For one that no public module has, or only one that takes long to import.
    """
    for found in getattr(mlir, "_lowerings", ()):
        if found.name == name:
            return cast(Primitive, found)
    raise ChangedJaxError(f"jax lowers no primitive {name}")


def generic(primitive: Primitive) -> LoweringRule:
    """JAX's lowering of `primitive` for platforms that have no own one."""
    try:
        return mlir._lowerings[primitive].rule
    except (AttributeError, KeyError) as error:
        raise ChangedJaxError(
            f"{primitive} has no lowering for any platform ({error!r})"
        ) from error


def own(primitive: Primitive) -> LoweringRule:
    """The lowering of `primitive` for the CPU."""
    try:
        before = mlir._platform_specific_lowerings["cpu"].get(primitive)
        rule: LoweringRule = (before or mlir._lowerings[primitive]).rule
    except (AttributeError, KeyError, TypeError) as error:
        raise ChangedJaxError(
            f"the lowering rule of {primitive} cannot be read ({error!r})"
        ) from error
    return rule


def is_exporting(ctx: LoweringRuleContext) -> bool:
    """Whether a rule's context belongs to `jax.export`."""
    return bool(ctx.module_context.lowering_parameters.for_export)
