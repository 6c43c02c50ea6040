"""Switches JAX's own primitives to the package's CPU kernels.

Only the lowering of a primitive is replaced, and only for the platform "cpu".
Tracing, differentiation, vmap and sharding follow JAX's own rules.
"""

from __future__ import annotations

from collections.abc import Iterable

from xla_ffi_accelerate import (
    _jax,
    _loops,
    _lowering,
    _operands,
    _scopes,
    _setting,
    registry,
)
from xla_ffi_accelerate._jax import ChangedJaxError
from xla_ffi_accelerate._rule import Result
from xla_ffi_accelerate._scopes import Block, Change
from xla_ffi_accelerate.libraries import CPU_LIBRARY


def enable(*names: str, exact: bool = True) -> None:
    """Makes JAX's own functions on the CPU run the package's kernels.

    It applies to the whole process. Inside a block of `enabled`, it applies to
    the thread until the block ends. Operations that are not covered, such as a
    dtype without a kernel or a program that is exported, keep JAX's own code.
    JAX compiles a function once for each setting under which it is called. On a
    release of JAX that is not verified, a rule that depends on the order of
    XLA's sums tests itself when a program first needs it.

    Up to jax 0.10, "loops" adds an option to XLA_FLAGS in the environment of
    the process, where XLA and JAX's compilation cache read it; programs that
    the process starts have it too.

    Args:
      *names: the names to enable, in addition to those that are on. For
        example, "sort" enables `jax.lax.sort` and the functions built on it,
        such as `jnp.sort`, `argsort`, `lexsort`, `unique`, `median`,
        `percentile`, `jax.random.permutation` and `choice`.
        accelerate/docs/coverage.md lists all names and groups of names.
      exact: what to enable if there is no name: everything whose results stay
        the same, bit for bit (True), or everything (False).

    Raises:
      ValueError: a name is not known.
      HandlerLibraryError: the package's library is missing or too old.
    """
    change = _change("enable", names, exact)
    if "loops" in change.names:
        _loops.widen()
    _scopes.add(change)


def enable_from(value: str) -> None:
    """Calls `enable` with the value of an environment variable.

    Args:
      value: "exact", "all", or names, with commas between them.
    """
    if value in ("exact", "all"):
        enable(exact=value == "exact")
    else:
        enable(*(name.strip() for name in value.split(",")))


def disable() -> None:
    """Switches everything off; inside a block, only until the block ends."""
    _scopes.add(_off())


def enabled(*names: str, exact: bool = True, export: bool = False) -> Block:
    """Enables names in one thread, until the block ends.

    Blocks nest, and end in the reverse order. A block adds to what is on where
    it is entered; threads that it starts have the setting of the process.

    Args:
      *names: the same as for `enable`.
      exact: the same as for `enable`.
      export: whether what `jax.export` exports in the block calls the kernels
        of these names, too. Such a program runs only where
        `xla_ffi_accelerate` is imported. Pass `xla_ffi_kit.export_checks()` as
        JAX's `disabled_checks`.

    Returns:
      A context manager: `with enabled("sort"):`.

    Raises:
      ValueError: a name is not known.
      HandlerLibraryError: the package's library is missing or too old.
    """
    change = _change("enabled", names, exact)
    exported = change.names if export else frozenset[str]()
    return Block(Change(change.names, exported=exported))


def disabled() -> Block:
    """Switches everything off in one thread, until the block ends."""
    return Block(_off())


def status() -> dict[str, Result]:
    """Returns the names that are on in this thread, sorted.

    Returns:
      Name -> "exact" if the results stay the same, bit for bit, or "close" if
      they stay within the bound that docs/numerics.md states. Names whose
      primitives have changed in this release of JAX are not included.
    """
    return {
        name: registry.result(name)
        for name in sorted(_setting.current().names)
        if any(map(_lowering.is_installed, registry.RULES.get(name, ())))
    }


def state() -> dict[str, str]:
    """Returns name -> state, such as "on, exact", for the doctor."""
    on = status()
    found = {}
    for name, rules in sorted(registry.RULES.items()):
        reasons = _lowering.reasons(name)
        for rule in rules:
            try:
                _jax.primitive(rule.primitive)
            except ChangedJaxError as error:
                reasons.append(str(error))
        is_on = "on" if name in on else "off"
        found[name] = f"{is_on}, {registry.result(name)}"
        if reasons:
            found[name] += f"; JAX's own stays: {reasons[0]}"
    return found


def _off() -> Change:
    return Change(replaces=True)


def _change(function: str, names: tuple[str, ...], exact: bool) -> Change:
    """Returns the change for the arguments, and installs its rules."""
    wanted = registry.names(function, *names, exact=exact)
    for name in wanted:  # all of them, before anything is changed
        for rule in registry.RULES[name]:
            if rule.target is not None:
                CPU_LIBRARY.handler(rule.target)
    install(wanted)
    return Change(wanted)


def install(names: Iterable[str]) -> None:
    """Makes the lowerings of the names' primitives read the setting."""
    _loops.install()
    _operands.install()
    for name in sorted(names):
        for rule in registry.RULES[name]:
            _lowering.install(name, rule)
