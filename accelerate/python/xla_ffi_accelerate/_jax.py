"""Every private name of JAX that the package uses, beside `_jax_rules`.

`Primitive` and `hlo` are public in `jax.extend`, whose import, since jax 0.10,
takes as long as that of the whole kit: Pallas is in it.
"""

from __future__ import annotations

import jax
from jax._src import xla_bridge
from jax._src.core import Primitive as Primitive
from jax._src.lib.mlir.dialects import hlo as hlo  # type: ignore[attr-defined]


def is_traced(value: object) -> bool:
    """Whether `value` is a tracer, which has no value yet."""
    return isinstance(value, jax.core.Tracer)


def backend_is_up() -> bool:
    """Whether JAX has started its backends. To ask for a device starts them."""
    return xla_bridge.backends_are_initialized()


def set_global_value(context: object, value: object) -> None:
    """Sets what a user context of JAX is where no thread has entered it.

    Public since jax 0.10; the object behind it has been able to all along.
    """
    own = context if hasattr(context, "set_global") else context._obj  # type: ignore[attr-defined]
    own.set_global(value)
