"""The switch that sends an operation to its reference instead of a kernel."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from typing import cast

import jax

from xla_ffi_kit.op.spec import OpSpec

ENVIRONMENT_VARIABLE = "XLA_FFI_KIT_REFERENCE"
_ALL = "*"


def _from_environment() -> frozenset[str]:
    names = os.environ.get(ENVIRONMENT_VARIABLE, "").split(",")
    return frozenset(name.strip() for name in names if name.strip())


# Names of operations and public functions, whole and their last parts.
_names: set[str] = set()
_without_reference: set[str] = set()
_unchecked = set(_from_environment()) - {_ALL}


def add_operation(op: OpSpec) -> None:
    """Makes the names of an operation known to `use_reference`."""
    names = _names if op.reference else _without_reference
    names.update(op.switch_names)


# A user context is part of the key of JAX's trace and compile caches, so a
# jitted function traced under one setting is traced anew under another.
_references = jax.make_user_context(default_value=_from_environment())


@contextlib.contextmanager
def use_reference(*names: str) -> Iterator[None]:
    """Runs the references of the named operations; without names, of all.

    A name is that of an operation or of a public function. With the name of a
    function, all operations that are `part_of` it run their reference,
    including those of its derivatives. You may use full names or their last
    parts ("rms_norm"). Nested uses add up. The environment variable
    XLA_FFI_KIT_REFERENCE, a comma-separated list of names or "*", has the same
    effect from the start. An operation without a reference always runs its
    handler, and its name is not accepted.

    Raises:
      TypeError: a name is not a string.
      ValueError: no operation with a reference has the name.

    Example:
      with xla_ffi_kit.use_reference("rms_norm"):
          y = step(x)
    """
    for name in names:
        if not isinstance(name, str):
            raise TypeError(
                "use_reference: argument names: expected strings, got "
                f"{type(name).__name__}"
            )
        if name not in (_ALL, *_names):
            which = " with a reference" if name in _without_reference else ""
            raise ValueError(
                "use_reference: argument names: expected names of operations"
                f"{which}, {_spelled()}, got {name!r}"
            )
    more = frozenset(names) if names else frozenset({_ALL})
    with choose(chosen() | more):
        yield


def chosen() -> frozenset[str]:
    """The names that `use_reference` has chosen, for `choose`."""
    return cast(frozenset[str], _references.value)


def choose(names: frozenset[str]) -> contextlib.AbstractContextManager[None]:
    """Lets `chosen()` be these names in a context."""
    return cast(contextlib.AbstractContextManager[None], _references(names))


def runs_reference(op: OpSpec) -> bool:
    """Whether an operation is switched to its reference."""
    names = chosen()
    if not names or op.reference is None:
        return False
    if _unchecked:
        _warn_of_unknown()
    return _ALL in names or not names.isdisjoint(op.switch_names)


def _warn_of_unknown() -> None:
    """Warns once of names in the environment that no operation has."""
    unknown = sorted(_unchecked - _names)
    _unchecked.clear()
    if unknown:
        warnings.warn(
            f"{ENVIRONMENT_VARIABLE}: there is no operation "
            f"{', '.join(unknown)} yet; there are {_spelled()}",
            stacklevel=4,
        )


def _spelled() -> str:
    return ", ".join(sorted(name for name in _names if "." not in name))
