"""The switch that sends an operation to its reference instead of a kernel."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import jax

ENVIRONMENT_VARIABLE = "XLA_FFI_KIT_REFERENCE"
_ALL = "*"


def _from_environment() -> frozenset[str]:
    names = os.environ.get(ENVIRONMENT_VARIABLE, "").split(",")
    return frozenset(name.strip() for name in names if name.strip())


# A user context is part of the key of JAX's trace and compile caches, so a
# jitted function traced under one setting is traced anew under another.
_references = jax.make_user_context(default_value=_from_environment())


@contextlib.contextmanager
def use_reference(*names: str) -> Iterator[None]:
    """Runs the named operations as their JAX reference, all without names.

    A name is an operation's full name or its last part ("rms_norm"). Nested
    uses add up. The environment variable XLA_FFI_KIT_REFERENCE, a
    comma-separated list of names or "*", sets the same at start-up.

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
    chosen = frozenset(names) if names else frozenset({_ALL})
    with _references(_references.value | chosen):
        yield


def runs_reference(name: str) -> bool:
    """Whether the operation `name` is switched to its reference."""
    chosen = _references.value
    if not chosen:
        return False
    return not chosen.isdisjoint((_ALL, name, name.rpartition(".")[2]))
