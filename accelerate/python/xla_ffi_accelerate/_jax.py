"""Every private name of JAX that the package uses; no other file uses one.

`Primitive` is public in `jax.extend`, whose import takes as long as that of the
whole kit since jax 0.10: Pallas is in it. `register_lowering` is public, but
there is no public way to read the rule that it replaces.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, cast

import jax
from jax._src import xla_bridge
from jax._src.core import Primitive as Primitive
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRule, LoweringRuleContext

Function: TypeAlias = Callable[..., list[jax.Array]]

# Where a program keeps what it has lowered.
_CACHES = ("lowering_cache", "cached_primitive_lowerings")


class ChangedJaxError(RuntimeError):
    """This JAX does not have what replacing a lowering rule needs."""


def backend_is_up() -> bool:
    """Whether JAX has started its backends. Asking for a device starts them."""
    return xla_bridge.backends_are_initialized()


def set_global_value(context: object, value: object) -> None:
    """Sets what a user context of JAX is where no thread has entered it.

    Public since jax 0.10; the object behind it could do so before.
    """
    own = context if hasattr(context, "set_global") else context._obj  # type: ignore[attr-defined]
    own.set_global(value)


def primitive(path: str) -> Primitive:
    """JAX's primitive "<module>.<name>", or "<name>" if no module has it.

    Raises ChangedJaxError if there is none.
    """
    module, _, name = path.rpartition(".")
    if not module:
        return _lowered_primitive(name)
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, Primitive):
        raise ChangedJaxError(f"{module} has no primitive {name}")
    return found


def _lowered_primitive(name: str) -> Primitive:
    """JAX's primitive of that name, by its lowering rule."""
    for found in getattr(mlir, "_lowerings", ()):
        if found.name == name:
            return cast(Primitive, found)
    raise ChangedJaxError(f"jax lowers no primitive {name}")


def own_lowering(primitive: Primitive) -> LoweringRule:
    """The lowering of `primitive` for the CPU."""
    try:
        before = mlir._platform_specific_lowerings["cpu"].get(primitive)
        rule: LoweringRule = (before or mlir._lowerings[primitive]).rule
    except (AttributeError, KeyError, TypeError) as error:
        raise ChangedJaxError(
            f"the lowering rule of {primitive} cannot be read ({error!r})"
        ) from error
    return rule


def as_on_other_platforms(path: str) -> Function:
    """A primitive as a function that lowers as on other platforms."""
    own = primitive(path)
    try:
        rule = mlir._lowerings[own].rule
    except (AttributeError, KeyError) as error:
        raise ChangedJaxError(
            f"{own} has no lowering for any platform ({error!r})"
        ) from error
    generic = Primitive(f"{own.name}_generic")
    generic.multiple_results = True
    generic.def_abstract_eval(lambda *avals: own.abstract_eval(*avals)[0])
    mlir.register_lowering(generic, rule)
    return cast(Function, generic.bind)


def has_caches() -> bool:
    """Whether `own_caches` does anything, on this JAX."""
    fields = {field.name for field in dataclasses.fields(mlir.ModuleContext)}
    return fields.issuperset(_CACHES)


@contextlib.contextmanager
def own_caches(ctx: LoweringRuleContext, name: str) -> Iterator[None]:
    """Lowers as under the same name in this program, and all else anew.

    JAX lowers an operation or a function once for all its uses in a program.
    """
    if not has_caches():
        yield
        return
    module = ctx.module_context
    kept = {cache: getattr(module, cache) for cache in _CACHES}
    # The module has no room for more, but its cache lives as long as it does.
    own = kept["lowering_cache"].setdefault(
        (own_caches, name), {cache: {} for cache in _CACHES}
    )
    _set_all(module, own)
    try:
        yield
    finally:
        _set_all(module, kept)


def _set_all(target: object, values: Mapping[str, object]) -> None:
    for name, value in values.items():
        setattr(target, name, value)


def is_exporting(ctx: LoweringRuleContext) -> bool:
    """Whether a rule's context belongs to `jax.export`."""
    return bool(ctx.module_context.lowering_parameters.for_export)


def is_threefry_partitionable() -> bool:
    """Whether JAX's generator counts in its partitionable way."""
    return bool(jax.config.jax_threefry_partitionable)  # type: ignore[attr-defined]
