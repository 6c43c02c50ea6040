"""`accelerate()`: JAX's own primitives on the kit's CPU kernels.

Only what a primitive is lowered to is replaced, and only for the platform
"cpu": tracing, differentiation, vmap and sharding remain JAX's own rules.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable

import jax
from jax.interpreters.mlir import LoweringRule, LoweringRuleContext, ir

from xla_ffi_kit import _check, _jax_hooks
from xla_ffi_kit.accelerate import _jax_rules
from xla_ffi_kit.accelerate._jax_rules import ChangedJaxError
from xla_ffi_kit.accelerate._rule import Lowered, Rule
from xla_ffi_kit.accelerate.argmax import Argmax
from xla_ffi_kit.accelerate.cumulative import Cumulative
from xla_ffi_kit.accelerate.sort import Sort
from xla_ffi_kit.accelerate.top_k import TopK
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES

# By the name users give: the primitive in jax.lax is called <name>_p.
_RULES: dict[str, Rule] = {
    "argmax": Argmax("max"),
    "argmin": Argmax("min"),
    "cummax": Cumulative("max"),
    "cummin": Cumulative("min"),
    "cumprod": Cumulative("product"),
    "cumsum": Cumulative("sum"),
    "sort": Sort(),
    "top_k": TopK(),
}

_lock = threading.RLock()
_undo: dict[str, Callable[[], None]] = {}
_changed: dict[str, str] = {}  # name -> what this JAX has changed


class Accelerated:
    """What `accelerate` returns: as a context manager, undoes it at the end."""

    def __init__(self, before: frozenset[str]) -> None:
        self._before = before

    def __enter__(self) -> Accelerated:
        return self

    def __exit__(self, *_: object) -> None:
        _switch_to(self._before)


def accelerate(*names: str | bool) -> Accelerated:
    """Makes JAX's own functions on the CPU run the kit's kernels.

    The results stay the same, bit for bit. What a kernel does not cover (a
    dtype it does not have, a program that is exported) is lowered as before.
    Compiled functions are forgotten (`jax.clear_caches`), because they would
    keep the old code.

    Args:
      *names: what to accelerate, in addition to what already is; all there is
        without a name. "sort": `jax.lax.sort` and everything made of it, such
        as `jnp.sort`, `argsort`, `lexsort`, `unique`, `median`, `percentile`,
        `jax.random.permutation` and `choice`. "top_k": `jax.lax.top_k`.
        "argmax", "argmin", "cumsum", "cumprod", "cummax", "cummin": the
        functions of these names in `jax.lax` and `jnp`. False alone undoes
        everything.

    Returns:
      An object to be ignored, or used as a context manager: `with
      accelerate("sort"):` accelerates until the end of the block.

    Raises:
      ValueError: a name that is not known.
      HandlerLibraryError: the kit's library is missing or too old.
    """
    wanted = _check_names(names)
    with _lock:
        before = frozenset(_undo)
        _switch_to(frozenset() if names == (False,) else before | wanted)
    return Accelerated(before)


def accelerated() -> tuple[str, ...]:
    """The names that `accelerate` has accelerated, sorted."""
    with _lock:
        return tuple(sorted(_undo))


def state() -> dict[str, str]:
    """Name -> "on", "off", or why this JAX's own code stays, for the doctor."""
    with _lock:
        found = {}
        for name in sorted(_RULES):
            found[name] = "on" if name in _undo else "off"
            try:
                _jax_rules.primitive(f"{name}_p")
            except ChangedJaxError as error:
                found[name] = f"JAX's own stays: {error}"
            if name in _changed:
                found[name] = f"JAX's own stays: {_changed[name]}"
        return found


def _check_names(names: tuple[str | bool, ...]) -> frozenset[str]:
    if names == (False,):
        return frozenset()
    unknown = [n for n in names if not isinstance(n, str) or n not in _RULES]
    if unknown:
        raise ValueError(
            f"accelerate: names: expected any of {', '.join(sorted(_RULES))}, "
            f"or False alone, got {unknown[0]!r}"
        )
    return frozenset(n for n in names if isinstance(n, str)) or frozenset(
        _RULES
    )


def _switch_to(wanted: Iterable[str]) -> None:
    """Accelerates exactly `wanted`."""
    with _lock:
        wanted = frozenset(wanted)
        for name in wanted:  # all of them, before anything is changed
            KIT_LIBRARIES[0].handler(_RULES[name].TARGET)
        before = frozenset(_undo)
        for name in before - wanted:
            _undo.pop(name)()
        for name in sorted(wanted - before):
            try:
                _undo[name] = _replace(name)
            except ChangedJaxError as error:
                _warn(name, str(error))
        if frozenset(_undo) != before:
            jax.clear_caches()


def _replace(name: str) -> Callable[[], None]:
    rules = _RULES[name]

    def wrap(own: LoweringRule) -> LoweringRule:
        def rule(
            ctx: LoweringRuleContext, *operands: ir.Value, **parameters: object
        ) -> Lowered:
            avals = _jax_hooks.shaped(ctx.avals_in)
            if frozenset(parameters) not in rules.PARAMETERS:
                _warn(name, f"its parameters are {sorted(parameters)}")
            elif (
                # An exported program must run where the kit is not.
                not _jax_rules.is_exporting(ctx)
                and _check.is_static(*(a.shape for a in avals))
                and rules.covers(avals, **parameters)
                and (
                    not _jax_hooks.xla_may_partition(ctx)
                    or rules.partitions(avals, **parameters)
                )
            ):
                return rules.lower(ctx, *operands, **parameters)
            return own(ctx, *operands, **parameters)

        return rule

    primitive = _jax_rules.primitive(f"{name}_p")
    return _jax_rules.replace(primitive, wrap)


def _warn(name: str, reason: str) -> None:
    if name in _changed:
        return
    _changed[name] = reason
    warnings.warn(
        f"xla_ffi_kit.accelerate: {name} stays JAX's own, because jax "
        f"{jax.__version__} has changed: {reason}; update xla_ffi_kit",
        RuntimeWarning,
        stacklevel=4,
    )
