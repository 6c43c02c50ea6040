"""Loops that XLA has no fast way for, each from one string.

They run on CPUs, on CUDA and, in tests without a GPU, in the emulator.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax import lax

import xla_ffi_kit

# Where a test compiles for CUDA it must not fall back; on CPUs it is compiled
# in each process, and its speed is of no interest.
_BOTH = {"platforms": ("cpu", "cuda"), "flags": ["-march=native", "-O1"]}
_rows = functools.partial(xla_ffi_kit.rows, dtypes="f32", **_BOTH)


def _over_last(step, start, *arrays):
    """The results of lax.scan over the last axis, that axis last again."""
    arrays = [jnp.moveaxis(a, -1, 0) for a in arrays]
    _, ys = lax.scan(lambda h, xs: step(h, *xs), start, tuple(arrays))
    return jax.tree.map(lambda y: jnp.moveaxis(y, 0, -1), ys)


@_rows(
    r"""
    A h = 0;
    kit::for_each(x, out, [&](auto v) { return h = std::tanh(decay * h + v); });
    """,
    dtypes="f32 f64 bf16 f16",
)
def recurrence(x, *, decay=0.9):
    """h[t] = tanh(decay h[t - 1] + x[t])."""
    wide = jnp.promote_types(x.dtype, jnp.float32)

    def step(h, v):
        h = jnp.tanh(decay * h + v.astype(wide))
        return h, h.astype(x.dtype)

    return _over_last(step, jnp.zeros_like(x[..., 0], wide), x)


@_rows(
    r"""
    A carry = 0;
    kit::for_each_reversed(a, before, ct, da, db, [&](auto at, auto h, auto g) {
      const A sum = g + carry;
      carry = at * sum;
      return kit::results(sum * h, sum);
    });
    """,
    results=["da", "db"],
)
def gates_backward(a, before, ct):
    def step(carry, at, h, g):
        total = g + carry
        return at * total, (total * h, total)

    reversed_ = [jnp.flip(x, -1) for x in (a, before, ct)]
    results = _over_last(step, jnp.zeros_like(a[..., 0]), *reversed_)
    return tuple(jnp.flip(x, -1) for x in results)


def _gates_fwd(a, b):
    h = gates(a, b)
    return h, (a, h)


def _gates_bwd(residuals, ct):
    a, h = residuals
    first = jnp.zeros_like(h[..., :1])
    before = jnp.concatenate([first, h[..., :-1]], -1)
    return gates_backward(a, before, ct)


@_rows(
    r"""
    A h = 0;
    kit::for_each(a, b, out, [&](auto at, auto bt) { return h = at * h + bt; });
    """,
    vjp=(_gates_fwd, _gates_bwd),
)
def gates(a, b):
    """h[t] = a[t] h[t - 1] + b[t]; the derivative is a second string."""

    def step(h, at, bt):
        h = at * h + bt
        return h, h

    return _over_last(step, jnp.zeros_like(a[..., 0]), a, b)


def _argmax(x, axis):
    """jnp.argmax, which XLA of jax 0.12 refuses to compile in a nested vmap."""
    index = lax.broadcasted_iota(jnp.int32, x.shape, x.ndim + axis)
    is_largest = x == jnp.max(x, axis, keepdims=True)
    return jnp.min(jnp.where(is_largest, index, x.shape[axis]), axis)


@_rows(
    r"""
    int64_t states = 1;
    while (states * states < transition.size()) ++states;
    const int64_t steps = score.size() / states;
    for (int64_t j = 0; j < states; ++j) {
      best[j] = score[j];
      back[j] = T(0);
    }
    for (int64_t t = 1; t < steps; ++t) {
      for (int64_t j = 0; j < states; ++j) {
        A most = std::numeric_limits<A>::lowest();
        int64_t from = 0;
        for (int64_t i = 0; i < states; ++i) {
          const A sum = best[(t - 1) * states + i] + transition[i * states + j];
          if (sum > most) most = sum, from = i;
        }
        best[t * states + j] = most + score[t * states + j];
        back[t * states + j] = T(from);
      }
    }
    const int64_t last = (steps - 1) * states;
    int64_t state = 0;
    for (int64_t j = 1; j < states; ++j) {
      if (A(best[last + j]) > A(best[last + state])) state = j;
    }
    for (int64_t t = steps - 1; t >= 0; --t) {
      path[t] = T(state);
      state = int64_t(A(back[t * states + state]));
    }
    """,
    results=["path", "best", "back"],
    kernel_axes=2,
    shared="transition",
)
def viterbi(score, transition):
    """The best path through a hidden Markov model; scores are logarithms."""
    dtype = score.dtype
    steps = jnp.moveaxis(score, -2, 0)

    def forwards(best, now):
        sums = best[..., :, None] + transition
        best = jnp.max(sums, -2) + now
        return best, (best, _argmax(sums, -2))

    last, (best, back) = lax.scan(forwards, steps[0], steps[1:])
    best = jnp.concatenate([steps[:1], best])
    state = _argmax(last, -1)

    def backwards(state, back):
        before = jnp.take_along_axis(back, state[..., None], -1)[..., 0]
        return before, before

    _, path = lax.scan(backwards, state, back, reverse=True)
    path = jnp.concatenate([path, state[None]])
    back = jnp.concatenate([jnp.zeros_like(steps[:1]), back.astype(dtype)])
    return (
        jnp.moveaxis(path.astype(dtype), 0, -1),
        jnp.moveaxis(best, 0, -2),
        jnp.moveaxis(back, 0, -2),
    )


@_rows(
    r"""
    for (int64_t j = 0; j < out.size(); ++j) out[j] = T(j);
    for (int64_t i = 0; i < a.size(); ++i) {
      T corner = out[0];
      out[0] = T(i + 1);
      for (int64_t j = 0; j < b.size(); ++j) {
        const T above = out[j + 1];
        const T change = corner + T(a[i] != b[j]);
        const T shift = T(1) + std::min(T(out[j]), above);
        out[j + 1] = std::min(change, shift);
        corner = above;
      }
    }
    """,
    before="#include <algorithm>",
    dtypes="s32",
)
def edit_distance(a, b):
    """The last row of the table of distances; it ends with that of a and b."""
    m = b.shape[-1]
    first = jnp.broadcast_to(
        jnp.arange(m + 1, dtype=b.dtype), (*b.shape[:-1], m + 1)
    )

    def row(above, letter_i):
        letter, i = letter_i
        change = above[..., :-1] + (letter[..., None] != b)

        def cell(left, pair):
            here = jnp.minimum(pair[0], 1 + jnp.minimum(left, pair[1]))
            return here, here

        start = jnp.zeros_like(above[..., 0]) + i + 1
        pairs = jnp.moveaxis(jnp.stack([change, above[..., 1:]]), -1, 0)
        _, cells = lax.scan(cell, start, pairs)
        row = jnp.concatenate([start[None], cells])
        return jnp.moveaxis(row, 0, -1).astype(b.dtype), None

    letters = jnp.moveaxis(a, -1, 0)
    places = jnp.arange(a.shape[-1], dtype=a.dtype)
    return lax.scan(row, first, (letters, places))[0]


@_rows(
    r"""
    A x1 = 0, x2 = 0, y1 = 0, y2 = 0;
    kit::for_each(x, out, [&](auto v) {
      const A y = A(b[0]) * v + A(b[1]) * x1 + A(b[2]) * x2 - A(a[0]) * y1 -
                  A(a[1]) * y2;
      x2 = x1;
      x1 = v;
      y2 = y1;
      return y1 = y;
    });
    """,
)
def biquad(x, *, a=(-1.6, 0.8), b=(0.1, 0.2, 0.1)):
    """A filter with two poles and two zeros."""

    def step(state, v):
        x1, x2, y1, y2 = state
        y = b[0] * v + b[1] * x1 + b[2] * x2 - a[0] * y1 - a[1] * y2
        return (v, x1, y, y1), y

    zero = jnp.zeros_like(x[..., 0])
    return _over_last(step, (zero,) * 4, x)


@xla_ffi_kit.elementwise(
    "solve(x)",
    before=r"""
    #include <limits>
    template <typename A>
    A solve(A x) {
      A y = x;
      for (int i = 0; i < 50; ++i) {
        const A step = (y * y * y + y - x) / (3 * y * y + 1);
        y -= step;
        if (std::abs(step) <= std::numeric_limits<A>::epsilon() * std::abs(y)) {
          break;
        }
      }
      return y;
    }
    """,
    dtypes="f32",
    **_BOTH,
)
def cubic_root(x):
    """y with y^3 + y = x, by Newton's iteration until nothing changes."""
    wide = jnp.promote_types(x.dtype, jnp.float32)
    v = x.astype(wide)

    def improve(_, y):
        return y - (y * y * y + y - v) / (3 * y * y + 1)

    return lax.fori_loop(0, 50, improve, v).astype(x.dtype)


@dataclasses.dataclass(frozen=True)
class Shown:
    """An operation, and the operands of a small call of it: dtype and shape."""

    op: xla_ffi_kit.FfiOp
    operands: tuple[str, ...]


SHOWN = (
    Shown(recurrence, ("f32[3,45]",)),
    Shown(gates, ("f32[3,45]", "f32[3,45]")),
    Shown(gates_backward, ("f32[3,45]",) * 3),
    Shown(viterbi, ("f32[3,9,4]", "f32[4,4]")),
    Shown(edit_distance, ("s32[3,7]", "s32[3,9]")),
    Shown(biquad, ("f32[3,45]",)),
    Shown(cubic_root, ("f32[5,7]",)),
)
