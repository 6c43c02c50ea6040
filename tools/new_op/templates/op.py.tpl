"""@NAME@: x * sigmoid(beta * x)."""

import jax
@IMPORTS@

def _reference(x: jax.Array, *, beta: float) -> jax.Array:  # what it means
    return x * jax.nn.sigmoid(beta * x)


# Dtypes, axes and the type of `beta` are those of the handler.
@NAME@ = FfiOp(
    "@TARGET@",
    _reference,
    libraries=@LIBRARIES@,
)
