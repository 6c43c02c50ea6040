"""A faster `jnp.isin`: which elements are among others.

The handler is in `accelerate/kernels/isin`.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from xla_ffi_accelerate import _dtypes, _jit
from xla_ffi_accelerate.libraries import LIBRARIES
from xla_ffi_kit import Advanced, FfiOp, extend

_NAME = "xla_ffi_accelerate.isin"
_Method = Literal["auto", "binary_search", "compare_all", "sort"]
# Up to this many comparisons, brute force beats building the hash table.
_FEW = 4096


def _reference(element: jax.Array, test: jax.Array) -> jax.Array:
    is_in = jnp.isin
    for _ in range(element.ndim - 1):
        is_in = jax.vmap(is_in)
    return is_in(element, test)


isin_op = FfiOp(
    _NAME,
    _reference,
    kernel_axes=1,
    handlers={"cpu": _NAME},
    libraries=LIBRARIES,
    advanced=Advanced(sharded_kernel_axes="gather"),
)


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: _Method = "auto",
) -> jax.Array:
    """Whether each element is among the test elements, like `jnp.isin`.

    Args:
      element: any array.
      test_elements: any array; both are converted to one dtype.
      assume_unique: has no effect.
      invert: whether to return the negation.
      method: "auto" uses the package's kernel. Any other method, and a small
        number of elements, uses `jnp.isin`.

    Returns:
      Booleans with the shape of `element`. NaN equals no test element.
    """
    element, test = _jit.jittable(element), _jit.jittable(test_elements)
    return _isin(element, test, assume_unique, invert, method)


@_jit.jit(static_argnums=(2, 3, 4))
def _isin(
    element: ArrayLike,
    test: ArrayLike,
    assume_unique: bool,
    invert: bool,
    method: _Method,
) -> jax.Array:
    element, test = jnp.asarray(element), jnp.asarray(test)
    dtype = jnp.result_type(element, test)
    sizes = element.size, test.size
    is_small = extend.is_static(sizes) and (sizes[0] * sizes[1] <= _FEW)
    if is_small or method != "auto" or str(dtype) not in _dtypes.REAL:
        return jnp.isin(element, test, assume_unique, invert, method=method)
    is_in = isin_op(element.astype(dtype).ravel(), test.astype(dtype).ravel())
    is_in = is_in.reshape(element.shape)
    return ~is_in if invert else is_in
