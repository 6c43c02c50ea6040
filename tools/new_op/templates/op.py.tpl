"""@NAME@: x * sigmoid(beta * x)."""

import jax
import numpy as np
@IMPORTS@

def _reference(x: jax.Array, *, beta: float) -> jax.Array:  # what it means
    return x * jax.nn.sigmoid(beta * x)


@NAME@ = FfiOp(
    "@TARGET@",
    _reference,
    kernel_axes=0,  # how many trailing axes the kernel needs whole
    libraries=@LIBRARIES@,
    attributes={"beta": np.float64},
)
