"""`accelerate()`: JAX's own primitives on the kit's CPU kernels.

Only what a primitive is lowered to is replaced, and only for the platform
"cpu": tracing, differentiation, vmap and sharding remain JAX's own rules.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from functools import partial

import jax
import jaxlib

from xla_ffi_kit.accelerate import _later, _replacement, registry
from xla_ffi_kit.accelerate._jax_rules import ChangedJaxError
from xla_ffi_kit.accelerate._rule import OfModule, Result, Rule, SelfTested
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES

_lock = threading.RLock()
_undo: dict[str, list[Callable[[], None]]] = {}  # what is on, in order
_changed: dict[str, list[str]] = {}  # name -> what this JAX has changed
_agrees: dict[Rule, bool] = {}  # what self-tests have found


class Accelerated:
    """What `accelerate` returns: as a context manager, undoes it at the end."""

    def __init__(self, before: frozenset[str]) -> None:
        self._before = before

    def __enter__(self) -> Accelerated:
        return self

    def __exit__(self, *_: object) -> None:
        _switch_to(self._before)


def accelerate(*names: str | bool, exact: bool = True) -> Accelerated:
    """Makes JAX's own functions on the CPU run the kit's kernels.

    Without a name the results stay the same, bit for bit. What is not covered
    (a dtype that a kernel does not have, a program for a kernel that is
    exported) is lowered as before. Compiled functions are forgotten
    (`jax.clear_caches`), because they would keep the old code. With a release
    of JAX that is not known yet, rules that depend on the order of XLA's sums
    are tested first, which starts JAX's backend.

    Args:
      *names: what to accelerate, in addition to what already is. "sort":
        `jax.lax.sort` and everything made of it, such as `jnp.sort`,
        `argsort`, `lexsort`, `unique`, `median`, `percentile`,
        `jax.random.permutation` and `choice`; docs/accelerate.md lists all
        names, and groups of them. False alone undoes everything.
      exact: what to accelerate without a name: everything whose results stay
        the same, bit for bit (True), or everything there is (False).

    Returns:
      An object to be ignored, or used as a context manager: `with
      accelerate("sort"):` accelerates until the end of the block.

    Raises:
      ValueError: a name that is not known.
      HandlerLibraryError: the kit's library is missing or too old.
    """
    wanted = frozenset[str]()
    is_off = len(names) == 1 and names[0] is False
    if not is_off:
        wanted = registry.names(*names, exact=exact)  # type: ignore[arg-type]
    with _lock:
        before = frozenset(_undo)
        _switch_to(wanted if is_off else before | wanted)
    return Accelerated(before)


def accelerated() -> dict[str, Result]:
    """The names that `accelerate` has accelerated, sorted.

    Returns:
      Name -> "exact" if the results stay the same, bit for bit; "close" if
      they do within the bound that docs/accelerate.md states.
    """
    with _lock:
        return {name: registry.result(name) for name in sorted(_undo)}


def state() -> dict[str, str]:
    """Name -> "on, exact", say, or why JAX's own stays, for the doctor."""
    with _lock:
        found = {}
        for name, rules in sorted(registry.RULES.items()):
            reasons = list(_changed.get(name, ()))
            for rule in rules:
                if isinstance(rule, OfModule) and (
                    rule.MODULE not in sys.modules
                ):
                    continue
                try:
                    rule.primitive()
                except ChangedJaxError as error:
                    reasons.append(str(error))
            is_on = "on" if name in _undo else "off"
            found[name] = f"{is_on}, {registry.result(name)}"
            if reasons:
                found[name] += f"; JAX's own stays: {reasons[0]}"
        return found


def _switch_to(wanted: Iterable[str]) -> None:
    """Accelerates exactly `wanted`."""
    with _lock:
        before, wanted = frozenset(_undo), frozenset(wanted)
        for name in wanted - before:  # all of them, before anything is changed
            for rule in registry.RULES[name]:
                if rule.TARGET is not None:
                    KIT_LIBRARIES[0].handler(rule.TARGET)
        # In order, since two names may replace the same primitive.
        for undo in [u for name in _undo.values() for u in name][::-1]:
            undo()
        _undo.clear()
        for name in [n for n in registry.RULES if n in wanted]:
            undos = [_install(name, rule) for rule in registry.RULES[name]]
            _undo[name] = [undo for undo in undos if undo is not None]
            if not _undo[name]:
                del _undo[name]
        if frozenset(_undo) != before:
            jax.clear_caches()


def _install(name: str, rule: Rule) -> Callable[[], None] | None:
    install = partial(_install_now, name, rule)
    if isinstance(rule, OfModule):
        return _later.when_imported(rule.MODULE, install)
    return install()


def _install_now(name: str, rule: Rule) -> Callable[[], None] | None:
    warn = partial(_warn, name)
    try:
        if _differs(rule):
            warn("XLA computes in another order")
            return None
        return _replacement.install(rule, warn)
    except ChangedJaxError as error:
        warn(str(error))
        return None


def _differs(rule: Rule) -> bool:
    """Whether the self-test of a rule, on a release not known, has failed."""
    if not isinstance(rule, SelfTested) or jaxlib.__version__ in rule.VERIFIED:
        return False
    if rule not in _agrees:
        _agrees[rule] = rule.self_test()
    return not _agrees[rule]


def _warn(name: str, reason: str) -> None:
    """Warns once of each name."""
    if reason in _changed.setdefault(name, []):
        return
    _changed[name].append(reason)
    if len(_changed[name]) == 1:
        warnings.warn(
            f"xla_ffi_kit.accelerate: {name} stays JAX's own, because jax "
            f"{jax.__version__} has changed: {reason}; update xla_ffi_kit",
            RuntimeWarning,
            stacklevel=4,
        )
