"""Two operations whose handlers are C++ files of these examples.

RMS norm's are those of the tutorial, a page of plain loops. Isotonic regression
is a sort, then a loop over a stack, which JAX cannot express well. Each stands
beside its reference, the same in plain JAX.
"""

from __future__ import annotations

import functools
import pathlib
import tempfile

import jax
import jax.numpy as jnp
import numpy as np

import xla_ffi_kit

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = [HERE / "tutorial/rms_norm.cc", HERE / "quickstart_isotonic.cc"]
HANDLERS = {
    "rms_norm": "RmsNorm",
    "rms_norm_fwd": "RmsNormFwd",
    "rms_norm_bwd": "RmsNormBwd",
    "quickstart.isotonic": "QuickstartIsotonic",
    "quickstart.block_average": "QuickstartBlockAverage",
}

# Bazel's library is beside this file; with pip alone it is built here.
LIBRARY = HERE / "quickstart_handlers.so"
if not LIBRARY.exists():
    _folder = tempfile.TemporaryDirectory()
    LIBRARY = pathlib.Path(_folder.name, LIBRARY.name)
    xla_ffi_kit.build_library(SOURCES, HANDLERS, LIBRARY)


# --- RMS norm -----------------------------------------------------------------
def plain_rms_norm(x: jax.Array, *, eps: float = 1e-6) -> jax.Array:
    """x / sqrt(mean(x^2) + eps) over the last axis."""
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + eps)


@functools.partial(
    xla_ffi_kit.FfiOp,
    "rms_norm_fwd",
    kernel_axes=1,
    libraries=[LIBRARY],
    attributes={"eps": np.float32},
)
def _rms_norm_fwd(x, *, eps):
    """The same and the scale of each row."""
    scale = jax.lax.rsqrt((x * x).mean(-1) + eps)
    return x * scale[..., None], scale


@functools.partial(
    xla_ffi_kit.FfiOp,
    "rms_norm_bwd",
    axes="(),(n),(n)->(n)",
    libraries=[LIBRARY],
    linear="v",  # in v; and symmetric: its transpose is itself
    transpose=lambda ct, scale, x, _: _rms_norm_bwd(scale, x, ct),
)
def _rms_norm_bwd(scale, x, v):
    """The derivative at x in the direction v."""
    scale = scale[..., None]
    return scale * v - x * scale**3 * (x * v).mean(-1, keepdims=True)


def _rms_norm_jvp(primals, tangents, *, eps):
    (x,), (v,) = primals, tangents
    y, scale = _rms_norm_fwd(x, eps=eps)
    return y, _rms_norm_bwd(scale, x, v)


rms_norm = xla_ffi_kit.FfiOp(
    "rms_norm",  # the custom call target
    plain_rms_norm,  # the same in JAX
    kernel_axes=1,  # how many trailing axes the kernel needs whole
    libraries=[LIBRARY],
    attributes={"eps": np.float32},
    jvp=_rms_norm_jvp,
)


# --- Isotonic regression ------------------------------------------------------
def _pool_first(scores, targets):
    """One row in plain JAX, as one writes it first: (fitted, blocks).

    Each step merges two blocks or pushes a value. XLA copies the arrays for the
    lax.cond of each: quadratic time.
    """
    n = scores.size
    places = jnp.argsort(scores)
    # Places with one score have one value.
    group = jnp.cumsum(jnp.diff(scores[places], prepend=jnp.nan) != 0) - 1
    values = jax.ops.segment_sum(targets[places], group, n)
    sizes = jax.ops.segment_sum(jnp.ones_like(targets), group, n)

    def violates(state):
        """Whether the last block's mean is not above that of the one before."""
        _, top, sums, counts = state
        first, last = jnp.maximum(top - 2, 0), top - 1
        falls = sums[first] * counts[last] >= sums[last] * counts[first]
        return (top > 1) & falls

    def merge(state):
        i, top, sums, counts = state
        sums = sums.at[top - 2].add(sums[top - 1])
        return i, top - 1, sums, counts.at[top - 2].add(counts[top - 1])

    def push(state):
        i, top, sums, counts = state
        sums = sums.at[top].set(values[i])
        return i + 1, top + 1, sums, counts.at[top].set(sizes[i])

    zeros = jnp.zeros_like(targets)
    _, top, sums, counts = jax.lax.while_loop(
        lambda state: (state[0] <= group[-1]) | violates(state),
        lambda state: jax.lax.cond(violates(state), merge, push, state),
        (0, 0, zeros, zeros),
    )
    return _spread(top, sums, counts, places)


def _spread(top, sums, counts, places):
    """(fitted, blocks) of each place, from the blocks in sorted order."""
    n = places.size
    counts = jnp.where(jnp.arange(n) < top, counts, 0)
    means = sums / jnp.maximum(counts, 1)
    blocks = jnp.repeat(
        jnp.arange(n, dtype=jnp.int32),
        counts.astype(jnp.int32),
        total_repeat_length=n,
    )
    fitted = jnp.zeros_like(means).at[places].set(means[blocks])
    return fitted, jnp.zeros_like(blocks).at[places].set(blocks)


def _pool(scores, targets):
    """One row in plain JAX: (fitted, blocks).

    This is the fastest that we found: the inner loop carries scalars alone,
    and XLA updates the arrays of the outer one in place.
    """
    n = scores.size
    places = jnp.arange(n, dtype=jnp.int32)
    sorted_scores, values, places = jax.lax.sort(
        (scores, targets, places), num_keys=1
    )
    changes = sorted_scores[1:] != sorted_scores[:-1]
    is_first, is_last = jnp.append(True, changes), jnp.append(changes, True)

    def push(i, state):
        sums, counts, top, total, count = state
        # Places with one score have one value: they are pushed together.
        total = jnp.where(is_first[i], 0, total) + values[i]
        count = jnp.where(is_first[i], 0, count) + 1

        def joins(block):
            total, count, top = block
            last = jnp.maximum(top - 1, 0)
            violates = sums[last] * count >= total * counts[last]
            return is_last[i] & (top > 0) & violates

        def join(block):
            total, count, top = block
            return total + sums[top - 1], count + counts[top - 1], top - 1

        block = jax.lax.while_loop(joins, join, (total, count, top))
        at = block[2]
        sums, counts = sums.at[at].set(block[0]), counts.at[at].set(block[1])
        return sums, counts, at + is_last[i], total, count

    zeros, zero = jnp.zeros_like(values), jnp.zeros((), values.dtype)
    sums, counts, top, _, _ = jax.lax.fori_loop(
        0, n, push, (zeros, zeros, 0, zero, zero)
    )
    return _spread(top, sums, counts, places)


def _average_row(blocks, values):
    n = blocks.size
    sums = jax.ops.segment_sum(values, blocks, n)
    counts = jax.ops.segment_sum(jnp.ones_like(values), blocks, n)
    return (sums / jnp.maximum(counts, 1))[blocks]


def plain_block_average(blocks: jax.Array, values: jax.Array) -> jax.Array:
    """The mean of the values in each block, [..., n] -> [..., n]."""
    return jnp.vectorize(_average_row, signature="(n),(n)->(n)")(blocks, values)


def _isotonic_jvp_by(isotonic, average):
    """The derivative: each fitted value is its block's mean target."""

    def jvp(primals, tangents):
        fitted, blocks = isotonic(*primals)
        dblocks = np.zeros(blocks.shape, jax.dtypes.float0)
        return (fitted, blocks), (average(blocks, tangents[1]), dblocks)

    return jvp


def _isotonic_by(pool):
    """Isotonic regression by a function of one row."""

    @jax.custom_jvp
    def isotonic(
        scores: jax.Array, targets: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The values closest to the targets that never fall as the score rises.

        Args:
          scores: f32[..., n].
          targets: f32[..., n].

        Returns:
          The fitted values, like the targets, and the number of the block of
          places with one value that each belongs to, int32[..., n].
        """
        n = scores.shape[-1]
        rows = [x.reshape(-1, n) for x in (scores, targets)]
        # Not vmap, which would take as many steps for each row as for the
        # longest.
        fitted, blocks = jax.lax.map(lambda row: pool(*row), tuple(rows))
        return fitted.reshape(scores.shape), blocks.reshape(scores.shape)

    isotonic.defjvp(_isotonic_jvp_by(isotonic, plain_block_average))
    return isotonic


first_isotonic = _isotonic_by(_pool_first)
plain_isotonic = _isotonic_by(_pool)

block_average = xla_ffi_kit.FfiOp(
    "quickstart.block_average",
    plain_block_average,
    libraries=[LIBRARY],
    linear="values",
    transpose=lambda ct, blocks, _: block_average(blocks, ct),
)
isotonic = xla_ffi_kit.FfiOp(
    "quickstart.isotonic",
    plain_isotonic,
    libraries=[LIBRARY],
    jvp=_isotonic_jvp_by(lambda *operands: isotonic(*operands), block_average),
)
