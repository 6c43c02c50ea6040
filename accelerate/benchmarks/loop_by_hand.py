"""Some of the loops in C++: what a compiler could make of them at best.

Each returns one number, so that only the loop's own work is measured.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

import loop_filters
import xla_ffi_kit

_GARCH = """
A variance = 1, fit = 0;
const A level = 1 / (1 + std::exp(A(2))), memory = 1 / (1 + std::exp(A(-1)));
for (const T v : x) {
  fit += std::log(variance) + v * v / variance;
  variance = level + level * v * v + memory * variance;
}
out[0] = A(-0.5) * fit;
"""

_PID = """
A place = 0, speed = 0, total = 0, last = 0, before = 0;
for (const T target : x) {
  before = place;
  const A error = target - place;
  total += A(0.01) * error;
  const A force = 8 * error + 2 * total + A(0.5) * (error - last) / A(0.01);
  speed += A(0.01) * (force - place - A(0.1) * speed);
  place += A(0.01) * speed;
  last = error;
}
out[0] = before;
"""

_SIR = """
A s = A(0.99), i = A(0.01), r = 0;
for (int64_t t = 0; t < x.size(); ++t) {
  const A fresh = A(0.5) * s * i, gone = A(0.1) * i;
  s -= A(0.05) * fresh;
  i += A(0.05) * (fresh - gone);
  r += A(0.05) * gone;
}
out[0] = r;
"""

_RK4 = """
const auto slope = [](A y0, A y1) { return A(1.5) * (1 - y0 * y0) * y1 - y0; };
const A h = A(0.01);
A p = 2, q = 0;
for (int64_t t = 0; t < x.size(); ++t) {
  const A a0 = q, a1 = slope(p, q);
  const A b0 = q + h / 2 * a1, b1 = slope(p + h / 2 * a0, b0);
  const A c0 = q + h / 2 * b1, c1 = slope(p + h / 2 * b0, c0);
  const A d0 = q + h * c1, d1 = slope(p + h * c0, d0);
  p += h / 6 * (a0 + 2 * b0 + 2 * c0 + d0);
  q += h / 6 * (a1 + 2 * b1 + 2 * c1 + d1);
}
out[0] = p + q;
"""

_HMM = """
A now[8], next[8], fit = 0;
for (A& p : now) p = 1;
for (int64_t t = 0; t < x.size() / 8; ++t) {
  A sum = 0;
  for (int j = 0; j < 8; ++j) {
    next[j] = 0;
    for (int i = 0; i < 8; ++i) next[j] += now[i] * model[8 * i + j];
    next[j] *= std::exp(x[8 * t + j]);
    sum += next[j];
  }
  for (int j = 0; j < 8; ++j) now[j] = next[j] / sum;
  fit += std::log(sum);
}
out[0] = fit;
"""

_KALMAN = """
const auto* f = &model[0];
const auto* h = &model[16];
A m[4] = {}, p[4][4] = {}, fit = 0;
for (int i = 0; i < 4; ++i) p[i][i] = 1;
for (int64_t t = 0; t < x.size() / 2; ++t) {
  A n[4] = {}, q[4][4] = {}, seen[2][4] = {}, s[2][2] = {}, mean[2] = {};
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 4; ++k) {
      n[i] += f[4 * i + k] * m[k];
      for (int j = 0; j < 4; ++j) q[i][j] += f[4 * i + k] * p[k][j];
    }
  }
  for (int i = 0; i < 4; ++i) {
    A row[4] = {};
    for (int k = 0; k < 4; ++k) {
      for (int j = 0; j < 4; ++j) row[j] += q[i][k] * f[4 * j + k];
    }
    for (int j = 0; j < 4; ++j) p[i][j] = row[j];
    p[i][i] += A(0.1);
  }
  for (int i = 0; i < 2; ++i) {
    for (int k = 0; k < 4; ++k) {
      mean[i] += h[4 * i + k] * n[k];
      for (int j = 0; j < 4; ++j) seen[i][j] += h[4 * i + k] * p[k][j];
    }
  }
  for (int i = 0; i < 2; ++i) {
    for (int k = 0; k < 4; ++k) {
      for (int j = 0; j < 2; ++j) s[i][j] += seen[i][k] * h[4 * j + k];
    }
  }
  const A a = s[0][0] + A(0.5), b = s[0][1], c = s[1][0];
  const A d = s[1][1] + A(0.5), det = a * d - b * c;
  const A r0 = x[2 * t] - mean[0], r1 = x[2 * t + 1] - mean[1];
  const A u0 = (d * r0 - b * r1) / det, u1 = (a * r1 - c * r0) / det;
  fit -= A(0.5) * (r0 * u0 + r1 * u1 + std::log(det));
  A gain[4][2], lost[4][4] = {};
  for (int i = 0; i < 4; ++i) {
    gain[i][0] = (d * seen[0][i] - b * seen[1][i]) / det;
    gain[i][1] = (a * seen[1][i] - c * seen[0][i]) / det;
    m[i] = n[i] + gain[i][0] * r0 + gain[i][1] * r1;
    for (int k = 0; k < 2; ++k) {
      for (int j = 0; j < 4; ++j) lost[i][j] += gain[i][k] * h[4 * k + j];
    }
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) q[i][j] = p[i][j];
    for (int k = 0; k < 4; ++k) {
      for (int j = 0; j < 4; ++j) q[i][j] -= lost[i][k] * p[k][j];
    }
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) p[i][j] = q[i][j];
  }
}
out[0] = fit;
"""


def _shape(*operands: Any) -> Any:
    """A number for each row."""
    return jnp.sum(operands[0], -1, keepdims=True)


def _row(body: str) -> Callable[[Any], Any]:
    make: Any = xla_ffi_kit.rows(body, dtypes="f32", platforms=("cpu",))

    def by_hand(x: Any) -> Any:
        return _shape(x)

    op: Callable[[Any], Any] = make(by_hand)
    return op


def _with_model(body: str) -> Callable[[Any, Any], Any]:
    """A row of values, and an array that is the same in each step."""
    make: Any = xla_ffi_kit.rows(
        body, dtypes="f32", platforms=("cpu",), shared="model"
    )

    def by_hand(x: Any, model: Any) -> Any:
        return _shape(x) + 0 * jnp.sum(model)

    op: Callable[[Any, Any], Any] = make(by_hand)
    return op


def _hmm() -> Callable[[Any, Any], Any]:
    op = _with_model(_HMM)
    return lambda logits, scores: op(
        jnp.ravel(scores), jnp.ravel(jax.nn.softmax(logits, -1))
    )


def _kalman() -> Callable[[Any, Any], Any]:
    """Products with the zeros of the model are computed, as in JAX."""
    op = _with_model(_KALMAN)

    def run(noise: Any, ys: Any) -> Any:
        move, see, *_ = loop_filters.tracker(noise)
        return op(jnp.ravel(ys), jnp.concatenate([move.ravel(), see.ravel()]))

    return run


def _of_last(body: str) -> Callable[..., Any]:
    op = _row(body)
    return lambda *arguments: op(jnp.ravel(arguments[-1]))


@functools.cache
def functions() -> Mapping[str, Callable[..., Any]]:
    """Those that there are, by the names of `loop_programs`."""
    return {
        "Kalman filter": _kalman(),
        "hidden Markov model": _hmm(),
        "GARCH likelihood": _of_last(_GARCH),
        "RK4": _of_last(_RK4),
        "PID controller": _of_last(_PID),
        "SIR model": _of_last(_SIR),
    }
