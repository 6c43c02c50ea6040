"""RMS normalization over the last axis.

Zhang and Sennrich, Root Mean Square Layer Normalization, 2019,
arXiv:1910.07467. The handlers are in `xla_ffi/ops/rms_norm`: a forward, and a
backward without and with a weight. Each takes some sets of operands, and gives
what these ask for. Complex numbers run plain JAX.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, overload

import jax
import jax.numpy as jnp
from jax.core import max_dim, min_dim
from jax.typing import ArrayLike

from xla_ffi_kit import _check, _dtypes
from xla_ffi_kit._check import Typed
from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES
from xla_ffi_kit.op.spec import Advanced, Result

_NAME = "xla_ffi_kit.rms_norm"
_Array = jax.Array
_Maybe = jax.Array | None
# An operand that a transposition gives a value, or only a type.
_Linear = jax.Array | jax.ShapeDtypeStruct

# --- In plain JAX, with derivatives -------------------------------------------


def _widen(x: _Array) -> _Array:
    """Converts to the type that kernels compute in: f32 for 16-bit floats."""
    return x.astype(jnp.float32) if x.dtype.itemsize <= 2 else x


def _of_rows(weight: _Array, x: _Array) -> _Array:
    """The weight, widened, with x's rank, which JAX may be told not to add."""
    return jnp.expand_dims(_widen(weight), range(x.ndim - weight.ndim))


def _rounded(x: _Array) -> _Array:
    """`x` as it is stored: XLA would keep a wider sum of 16-bit floats."""
    if jnp.iscomplexobj(x) or x.dtype.itemsize > 2:
        return x
    info = jnp.finfo(x.dtype)
    return jax.lax.reduce_precision(x, info.nexp, info.nmant)


def _finish(y: _Array, h: _Array, weight: _Maybe) -> _Array:
    """Multiplies the normalized h by the weight and rounds it once."""
    y = _widen(y)
    if weight is not None:
        y = y * _of_rows(weight, y)
    return y.astype(h.dtype)


def _forward_with_scale(
    x: _Array,
    weight: _Maybe = None,
    residual: _Maybe = None,
    *,
    eps: float,
) -> tuple[_Array, ...]:
    """Returns y, the sum if there is a residual, and the scale of each row."""
    h = x if residual is None else _rounded(x + residual)
    wide = _widen(h)
    power = jnp.mean(jnp.real(wide * jnp.conj(wide)), axis=-1)
    scale = jax.lax.rsqrt(power + jnp.asarray(eps, power.dtype))
    y = _finish(wide * scale[..., None].astype(wide.dtype), h, weight)
    return (y, scale) if residual is None else (y, h, scale)


def _forward(
    x: _Array,
    weight: _Maybe = None,
    residual: _Maybe = None,
    *,
    eps: float,
) -> _Array | tuple[_Array, ...]:
    """Returns y, or y and the sum if there is a residual."""
    results = _forward_with_scale(x, weight, residual, eps=eps)[:-1]
    return results if len(results) > 1 else results[0]


def _backward(
    x: _Array,
    ct: _Array,
    scale: _Maybe = None,
    *,
    eps: float | None = None,
) -> _Array:
    """The cotangent of x, from that of y, and the scale or eps."""
    if scale is None:
        assert eps is not None
        scale = _forward_with_scale(x, eps=eps)[-1]
    return _cotangent_of_x(x, _widen(ct), scale).astype(x.dtype)


def _backward_with_weight(
    x: _Array,
    ct: _Array,
    scale: _Array,
    weight: _Array,
    ct_sum: _Maybe = None,
) -> tuple[_Array, _Array]:
    """The cotangents of x and weight, from those of y and the sum."""
    dx = _cotangent_of_x(x, _of_rows(weight, x) * _widen(ct), scale)
    if ct_sum is not None:
        dx = dx + _widen(ct_sum)
    return dx.astype(x.dtype), _weight_backward(x, ct, scale)


def _cotangent_of_x(x: _Array, g: _Array, scale: _Array) -> _Array:
    """The cotangent of x, from that of x times the scale, in wide numbers.

    The Jacobian is symmetric: from a tangent of x, it is that of x times the
    scale.
    """
    wide, s = _widen(x), scale[..., None]
    mean = jnp.mean(wide * g, axis=-1, keepdims=True)
    return s * g - wide * (s * s * s * mean)


def _weight_backward(x: _Array, ct: _Array, scale: _Array) -> _Array:
    """The cotangent of the weight, from that of y."""
    terms = _widen(x) * scale[..., None] * _widen(ct)
    return jnp.sum(terms, tuple(range(x.ndim - 1))).astype(x.dtype)


def _weighted_jvp(
    x: _Array,
    dx: _Array,
    scale: _Array,
    weight: _Array,
    dweight: _Array,
) -> tuple[_Array, _Array]:
    """The tangents of y and of what is normalized, x itself."""
    dy = _of_rows(weight, x) * _cotangent_of_x(x, _widen(dx), scale)
    dy = dy + _widen(x) * scale[..., None] * _of_rows(dweight, x)
    return dy.astype(x.dtype), dx


def _scale_jvp(x: _Array, dx: _Array, scale: _Array) -> _Array:
    """The tangent of the scale, from that of x."""
    power = jnp.mean(_widen(x) * _widen(dx), axis=-1)
    return -(scale * scale * scale) * power


# --- Without a weight ---------------------------------------------------------
# The Jacobian is symmetric, so a backward handler serves both directions.

rms_norm_bwd_op: FfiOp[_Array] = FfiOp(
    f"{_NAME}_bwd",
    _backward,
    libraries=KIT_LIBRARIES,
    linear="ct",
    transpose=lambda ct, x, _, scale, **eps: rms_norm_bwd_op(
        x, ct, scale, **eps
    ),
    advanced=Advanced(part_of=_NAME),
)

# --- With a weight ------------------------------------------------------------
# For reverse mode JAX transposes the jvp operation. Its transpose is the
# backward handler, which gives the gradients of x and weight together.


def _composed_backward(
    x: _Array, ct: _Array, scale: _Array, weight: _Array, ct_sum: _Maybe
) -> tuple[_Array, _Array]:
    """Computes the same with the handler that has no weight."""
    dx = rms_norm_bwd_op(x, _finish(ct, x, weight), scale)
    dweight = _weight_backward(x, ct, scale)
    return dx if ct_sum is None else dx + ct_sum, dweight


def _composed_jvp(
    x: _Array, dx: _Array, scale: _Array, weight: _Array, dweight: _Array
) -> tuple[_Array, _Array]:
    """Computes the same with the handler that has no weight."""
    dy = _widen(rms_norm_bwd_op(x, dx, scale)) * _of_rows(weight, x)
    dy = dy + _widen(x) * scale[..., None] * _of_rows(dweight, x)
    return dy.astype(x.dtype), dx


def _transpose_weight_backward(
    cts: tuple[_Maybe, _Maybe],
    x: _Array,
    _: _Linear,
    scale: _Array,
    weight: _Array,
    __: _Linear | None,
) -> tuple[_Array, _Array]:
    dx, dweight = cts
    dx = jnp.zeros_like(x) if dx is None else dx
    dweight = jnp.zeros_like(weight) if dweight is None else dweight
    return rms_norm_weight_jvp_op(x, dx, scale, weight, dweight)


def _transpose_weight_jvp(
    cts: tuple[_Maybe, _Maybe],
    x: _Array,
    dx: _Linear,
    scale: _Array,
    weight: _Array,
    _: _Linear,
) -> tuple[_Maybe, _Array]:
    ct, ct_sum = cts
    if ct is None:
        return ct_sum, jnp.zeros_like(weight)
    if not isinstance(dx, jax.ShapeDtypeStruct):
        # A value stands for dx: nobody asks for the cotangent of x.
        return None, _weight_backward(x, ct, scale)
    return rms_norm_weight_bwd_op(x, ct, scale, weight, ct_sum)


def _sums_of_rows(
    x: Typed, ct: Typed, scale: Typed, weight: Typed, ct_sum: Typed | None
) -> int:
    """Returns the bytes for the sums that the CUDA handler adds up to dweight.

    Each block that a GPU runs at a time needs one sum, with the weight's shape
    and the scale's type. The GPU is not known here; 8 MiB is what the threads
    of 256 processors have in registers. There are no more sums than one for
    each 64 rows, so that no thread adds up more than a few rows alone.
    """
    least = math.prod(weight.shape) * scale.dtype.itemsize
    groups = math.prod(weight.shape[:-1])
    rows = math.prod(scale.shape) // max_dim(groups, 1)
    blocks = min_dim(max_dim((8 << 20) // max_dim(least, 1), 1), 1024)
    slots = max_dim(min_dim(blocks, rows // 2 + 1), rows // 64)
    return least * slots


rms_norm_weight_bwd_op: FfiOp[tuple[_Array, _Array]] = FfiOp(
    f"{_NAME}_weight_bwd",
    _backward_with_weight,
    libraries=KIT_LIBRARIES,
    linear=("ct", "ct_sum"),
    transpose=_transpose_weight_backward,
    advanced=Advanced(
        part_of=_NAME,
        shared_results="dweight",
        batches_shared=True,
        partitioned=_composed_backward,
        workspace={"cuda": _sums_of_rows},
    ),
)

rms_norm_weight_jvp_op: FfiOp[tuple[_Array, _Array]] = FfiOp(
    f"{_NAME}_weight_jvp",
    _weighted_jvp,
    axes="(n),(n),(),(n),(n)->(n),(n)",
    handlers={"cpu": _composed_jvp, "cuda": _composed_jvp},
    libraries=KIT_LIBRARIES,
    shared=("weight", "dweight"),
    linear=("dx", "dweight"),
    transpose=_transpose_weight_jvp,
)

# --- Forward ------------------------------------------------------------------


def _composed_forward(
    x: _Array,
    weight: _Array,
    residual: _Maybe,
    *,
    eps: float,
    has_scale: bool = False,
) -> Result:
    """Computes the same with the handler that has no weight."""
    h = x if residual is None else x + residual
    sums = () if residual is None else (h,)
    if not has_scale:
        y = _finish(rms_norm_op(h, eps=eps), h, weight)
        return (y, *sums) if sums else y
    y, scale = rms_norm_fwd_op(h, eps=eps)
    return _finish(y, h, weight), *sums, scale


def _jvp(
    primals: tuple[_Array, _Maybe, _Maybe],
    tangents: tuple[_Array, _Array, _Array],
    *,
    eps: float,
    has_scale: bool = False,
) -> tuple[Result, Result]:
    (h, weight, residual), (dh, dweight, dresidual) = primals, tangents
    if weight is None and not has_scale:
        # The derivative depends only on x and recomputes the scale, one
        # multiplication for an element that is loaded anyway. If nobody wants
        # y, XLA then drops the forward: three times faster than with a stored
        # scale.
        return rms_norm_op(h, eps=eps), rms_norm_bwd_op(h, dh, eps=eps)
    *out, scale = rms_norm_fwd_op(*primals, eps=eps)
    if residual is not None:
        h, dh = out[1], _rounded(dh + dresidual)
    if weight is None:
        dy = rms_norm_bwd_op(h, dh, scale)
    else:
        dy, dh = rms_norm_weight_jvp_op(h, dh, scale, weight, dweight)
    d_out = [dy] if residual is None else [dy, dh]
    if has_scale:
        out.append(scale)
        d_out.append(_scale_jvp(h, dh, scale))
    if len(out) == 1:
        return out[0], d_out[0]
    return tuple(out), tuple(d_out)


def _make_forward(
    suffix: str, has_scale: bool = False, **options: Any
) -> FfiOp[Any]:
    """An operation with or without weight and residual.

    The handler tells these by their number: a residual comes with a weight.
    """
    return FfiOp(
        f"{_NAME}{suffix}",
        _forward_with_scale if has_scale else _forward,
        handlers={"cpu": _NAME, "cuda": _NAME},
        libraries=KIT_LIBRARIES,
        jvp=functools.partial(_jvp, has_scale=has_scale),
        advanced=Advanced(
            part_of=_NAME,
            batches_shared=True,
            partitioned=functools.partial(
                _composed_forward, has_scale=has_scale
            ),
        ),
        **options,
    )


# It gives y, with a residual `(y, sum)`.
rms_norm_op: FfiOp[Any] = _make_forward("")
# It gives the scale too, which the backward takes.
rms_norm_fwd_op: FfiOp[Any] = _make_forward("_fwd", has_scale=True)
# It writes y to x's memory, and the sum to the residual's.
rms_norm_in_place_op = _make_forward(
    "_in_place", aliases={"x": "y", "residual": "sum"}
)


# --- What users call ----------------------------------------------------------

_NAMES = (*_dtypes.FLOATS, *_dtypes.COMPLEX)
_DTYPES = frozenset(map(jnp.dtype, _NAMES))


def check(op: str, x: ArrayLike, eps: object) -> tuple[jax.Array, float]:
    """Checks the arguments that all variants of the operation share."""
    x = _check.array(op, "x", x)
    if x.dtype not in _DTYPES:  # This is faster than to compare its name.
        _check.dtype(op, "x", x, _NAMES)
    _check.min_rank(op, "x", x, 1)
    _check.non_empty_axis(op, "x", x, -1)
    return x, _check.non_negative_number(op, "eps", eps)


def _check_weight(op: str, weight: ArrayLike, x: jax.Array) -> jax.Array:
    weight = _check.array(op, "weight", weight)
    _check.same_dtype(op, "weight", weight, "x", x)
    _check.shape(op, "weight", weight, x.shape[-1:])
    return weight


@overload
def rms_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    residual: None = None,
    eps: float = 1e-6,
    in_place: bool = False,
) -> jax.Array: ...


@overload
def rms_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    residual: ArrayLike,
    eps: float = 1e-6,
    in_place: bool = False,
) -> tuple[jax.Array, jax.Array]: ...


def rms_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    residual: ArrayLike | None = None,
    eps: float = 1e-6,
    in_place: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """`x / sqrt(mean(|x|^2) + eps)` over the last axis, times `weight`.

    Forward and backward each read x once. Sums are in f32 for 16-bit inputs
    (f64 for f64), and the result is rounded once.

    Args:
      x: `[..., N]`, N >= 1; float16, bfloat16, float32 or float64, which the
        handlers take, or complex64 or complex128, which run plain JAX.
      weight: `[N]`, of x's dtype; default: none.
      residual: an array with x's shape and dtype, which is added to x before
        the sum is normalized.
      eps: a static number >= 0.
      in_place: whether to write y to x's memory, and the sum to the residual's.
        Use it for arguments that are donated (`jax.jit(f, donate_argnums=0)`)
        or not used again: large arrays then cause no page faults, which take
        longer than the computation. XLA copies other arguments first.

    Returns:
      y, with the shape and dtype of x; with a residual `(y, x + residual)`.

    Raises:
      TypeError: a dtype is not supported or differs from x's, or `eps` is not a
        static number.
      ValueError: x has rank 0 or an empty last axis, `weight` or `residual` has
        the wrong shape, or `eps` is negative or not finite.
    """
    x, eps = check(_NAME, x, eps)
    if weight is not None:
        weight = _check_weight(_NAME, weight, x)
    if residual is not None:
        residual = _check.array(_NAME, "residual", residual)
        _check.same_dtype(_NAME, "residual", residual, "x", x)
        _check.shape(_NAME, "residual", residual, x.shape)
        if weight is None:
            # The handler takes a residual only with a weight. A product with 1
            # is exact, and one pass is faster than two.
            weight = jnp.ones(x.shape[-1:], x.dtype)
    run: Callable[..., Any] = rms_norm_in_place_op if in_place else rms_norm_op
    if x.dtype.kind == "c":
        run = _forward
    results: jax.Array | tuple[jax.Array, jax.Array]
    results = run(x, weight, residual, eps=eps)
    return results
