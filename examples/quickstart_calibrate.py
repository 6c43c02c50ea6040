"""Calibration of a trained model's confidence by isotonic regression.

A model is calibrated if of the characters that it predicts with 80 % confidence
80 % are right. Isotonic regression of right (1) or wrong (0) on the confidence
says what a confidence is worth (Zadrozny and Elkan, 2002).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import quickstart_model as model
import quickstart_ops as ops
import quickstart_report as report

BINS = 15


class Predictions(NamedTuple):
    """One for each character of a text, all of them float32[n].

    Attributes:
      confidence: the probability of the character that the model expects.
      right: 1 where that is the character, else 0.
    """

    confidence: np.ndarray
    right: np.ndarray


class Fit(NamedTuple):
    """A regression and its gradient, and how long the first took in seconds."""

    fitted: np.ndarray
    gradient: np.ndarray
    seconds: float
    handler: bool


def predict(
    params: model.Params, characters: np.ndarray, length: int, norm: model.Norm
) -> Predictions:
    """What the model expects after each character, int32[n]."""
    count = (characters.size - 1) // length
    seen = characters[: count * length].reshape(count, length)
    come = characters[1 : count * length + 1].reshape(count, length)

    def of_one(window: jax.Array, after: jax.Array) -> tuple[Any, Any]:
        scores = jax.nn.softmax(model.logits(params, window, norm))
        return scores.max(-1), scores.argmax(-1) == after

    # 32 windows at a time: vmap of the operation.
    confidence, right = jax.jit(
        lambda pairs: jax.lax.map(lambda x: of_one(*x), pairs, batch_size=32)
    )((seen, come))
    return Predictions(
        np.asarray(confidence).ravel(), np.asarray(right, np.float32).ravel()
    )


def fit(
    isotonic: Callable[..., Any], data: Predictions, say: str, rounds: int = 5
) -> Fit:
    """Fits all predictions, compiled; the least time of some rounds counts."""
    run = jax.jit(lambda *x: isotonic(*x)[0]).lower(*data).compile()
    seconds = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        fitted = run(*data).block_until_ready()
        seconds = min(seconds, time.perf_counter() - start)
    weights = np.cos(np.arange(data.right.size, dtype=np.float32))
    gradient = jax.jit(
        jax.grad(lambda s, t: jnp.sum(isotonic(s, t)[0] * weights), argnums=1)
    )(*data)
    report.progress(f"{say}: {1e3 * seconds:.2f} ms", last=True)
    handler = "quickstart.isotonic" in (run.as_text() or "")
    return Fit(np.asarray(fitted), np.asarray(gradient), seconds, handler)


def calibrate(known: Predictions, confidence: np.ndarray) -> np.ndarray:
    """What a confidence is worth by the predictions that are known."""
    fitted = np.asarray(ops.isotonic(*known)[0])
    order = np.argsort(known.confidence)
    at = np.searchsorted(known.confidence[order], confidence)
    return fitted[order][np.minimum(at, order.size - 1)]


def error(confidence: np.ndarray, right: np.ndarray) -> float:
    """How far confidence is from truth, on average over bins of confidence."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    off = np.bincount(bins, confidence - right, minlength=BINS)
    return float(np.abs(off).sum() / right.size)


def result(kit: Fit, first: Fit, best: Fit) -> report.Result:
    """What the fits, by C++ and twice by plain JAX, say for the report."""
    problems = [
        f"isotonic regression's {what} by C++ are others than plain JAX's"
        for what, a, bs in (
            ("values", kit.fitted, (first.fitted, best.fitted)),
            ("gradients", kit.gradient, (first.gradient, best.gradient)),
        )
        if not all(np.allclose(a, b, rtol=1e-4, atol=1e-5) for b in bs)
    ]
    if not kit.handler:
        problems.append("the C++ handler is not in the compiled program")
    rows = [
        (
            name,
            f"{1e3 * plain.seconds:,.1f} ms",
            f"{1e3 * kit.seconds:.1f} ms",
            f"{plain.seconds / kit.seconds:,.0f} times as fast, "
            f"{'NOT the same' if problems else 'the same'}",
        )
        for name, plain in (
            (f"isotonic regression, {kit.fitted.size:,} values", first),
            ("  beside the best plain JAX", best),
        )
    ]

    def draw(axes: Any) -> None:
        axes.barh(
            ["C++", "best plain JAX", "plain JAX"],
            [kit.seconds, best.seconds, first.seconds],
        )
        axes.set_xscale("log")
        axes.set_xlabel("seconds")
        axes.set_title("isotonic regression")

    return report.Result(rows, problems, draw)
