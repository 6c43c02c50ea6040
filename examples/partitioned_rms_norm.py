"""RMS normalization whose last axis may be sharded.

The kernel needs whole rows, so `xla_ffi_kit.rms_norm` gathers a sharded last
axis. This variant runs the same handlers on each shard's part of the rows and
merges them with one number per row: an all-reduce instead of an all-gather. It
shows `jax.experimental.custom_partitioning`, the hook for operations that the
FfiOp rule "batch axes shard, kernel axes do not" is too narrow for.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from xla_ffi_kit import FfiOp, _jax_hooks
from xla_ffi_kit.ops import LIBRARIES
from xla_ffi_kit.ops.rms_norm import (
    check,
    rms_norm_bwd_op,
    rms_norm_fwd_op,
    rms_norm_op,
)

_NAME = "example.partitioned_rms_norm"


def _widen(x: jax.Array) -> jax.Array:
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def _mean_over(value: jax.Array, axes: Any) -> jax.Array:
    """The mean of the shards' means: all shards have rows of one length."""
    return jax.lax.pmean(value, axes) if axes else value


def _forward_shard(
    x: jax.Array, eps: float, axes: Any
) -> tuple[jax.Array, jax.Array]:
    y, scale = rms_norm_fwd_op(x, eps=eps)
    if not axes:
        return y, scale
    # scale^-2 is the shard's mean of |x|^2, plus eps; so is the mean of them.
    whole = jax.lax.rsqrt(_mean_over(1 / (scale * scale), axes))
    return (y * (whole / scale)[..., None]).astype(x.dtype), whole


def _backward_shard(
    x: jax.Array, ct: jax.Array, scale: jax.Array, axes: Any
) -> jax.Array:
    dx = rms_norm_bwd_op(x, ct, scale)
    if not axes:
        return dx
    # The handler subtracted conj(x) scale^3 mean(Re(x ct)) of its shard only.
    wide = _widen(x)
    mean = jnp.mean(jnp.real(wide * _widen(ct)), axis=-1)
    excess = scale * scale * scale * (mean - _mean_over(mean, axes))
    return (dx + jnp.conj(wide) * excess[..., None]).astype(x.dtype)


@functools.partial(custom_partitioning, static_argnums=(1,))
def _forward(x: jax.Array, eps: float) -> tuple[jax.Array, jax.Array]:
    return _forward_shard(x, eps, ())


@custom_partitioning
def _backward(x: jax.Array, ct: jax.Array, scale: jax.Array) -> jax.Array:
    return _backward_shard(x, ct, scale, ())


def _shardings(mesh: Any, x: Any) -> tuple[Any, Any, Any]:
    """The shardings of x and of its scale, and the last axis's mesh axes."""
    spec = tuple(x.sharding.spec)
    spec += (None,) * (len(x.shape) - len(spec))
    return (
        NamedSharding(mesh, PartitionSpec(*spec)),
        NamedSharding(mesh, PartitionSpec(*spec[:-1])),
        spec[-1],
    )


def _partition_forward(eps: float, mesh: Any, operands: Any, _: Any) -> Any:
    (x,) = operands
    rows, scales, axes = _shardings(mesh, x)
    shard = functools.partial(_forward_shard, eps=eps, axes=axes)
    return mesh, shard, (rows, scales), (rows,)


def _partition_backward(mesh: Any, operands: Any, _: Any) -> Any:
    x, _ct, _scale = operands
    rows, scales, axes = _shardings(mesh, x)
    shard = functools.partial(_backward_shard, axes=axes)
    return mesh, shard, rows, (rows, rows, scales)


_forward.def_partition(
    partition=_partition_forward, sharding_rule="... n -> ... n, ..."
)
_backward.def_partition(
    partition=_partition_backward,
    sharding_rule="... n, ... n, ... -> ... n",
)


# --- As operations, which batch and differentiate like any other --------------


def _call(x: jax.Array, *, eps: float) -> jax.Array:
    return _forward(x, eps)[0]


def _call_fwd(x: jax.Array, *, eps: float) -> tuple[jax.Array, jax.Array]:
    return _forward(x, eps)


def _times_jacobian(
    x: jax.Array, tangent: jax.Array, scale: jax.Array
) -> jax.Array:
    """The Jacobian times a tangent: it is symmetric."""
    return partitioned_bwd_op(x, tangent, scale)


def _jvp(primals: Any, tangents: Any, *, eps: float) -> Any:
    (x,), (tangent,) = primals, tangents
    y, scale = partitioned_fwd_op(x, eps=eps)
    return y, _times_jacobian(x, tangent, scale)


def _op(suffix: str, reference: Any, call: Any, **spec: Any) -> FfiOp:
    """An operation that runs `call`."""
    op = FfiOp(
        _NAME + suffix,
        reference,
        handlers={"cpu": call, "cuda": call},
        libraries=LIBRARIES,
        **spec,
    )
    _jax_hooks.lowers_with_devices(op.spec.primitive)
    return op


partitioned_bwd_op = _op(
    "_bwd",
    lambda x, ct, scale: rms_norm_bwd_op.reference(x, ct, scale),
    lambda x, ct, scale: _backward(x, ct, scale),
    axes="(n),(n),()->(n)",
    linear="ct",
    transpose=lambda ct, x, _, scale: _times_jacobian(x, ct, scale),
)

# Its own derivative is needed for the second order only: the reference's.
partitioned_fwd_op = _op(
    "_fwd",
    lambda x, *, eps: rms_norm_fwd_op.reference(x, eps=eps),
    _call_fwd,
    kernel_axes=1,
    attributes={"eps": np.float64},
)

partitioned_op = _op(
    "",
    lambda x, *, eps: rms_norm_op.reference(x, eps=eps),
    _call,
    kernel_axes=1,
    attributes={"eps": np.float64},
    jvp=_jvp,
)


def partitioned_rms_norm(x: Any, *, eps: float = 1e-6) -> jax.Array:
    """`rms_norm` for Auto meshes that shard the last axis.

    Costs one all-reduce of a number per row, forward and backward each; without
    a sharded last axis it is `rms_norm`. vmap and derivatives work as there.
    `jax.export` does not take it on several devices: XLA calls back into
    Python while it partitions.

    Args:
      x: `[..., N]` of a dtype of `rms_norm`; each shard an equal part of N.
      eps: a static number >= 0.

    Returns:
      y like x, sharded like x.

    Raises:
      TypeError: as `rms_norm`.
      ValueError: as `rms_norm`; a last axis sharded over an Explicit mesh.
    """
    x, eps = check(_NAME, x, eps)
    return partitioned_op(x, eps=eps)
