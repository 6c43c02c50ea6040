"""Data-parallel training of the character model; what XLA made of it."""

from __future__ import annotations

import collections
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import quickstart_model as model
import quickstart_ops as ops

LEARNING_RATE = 4e-3
WARM_UP = 20  # steps
BETA_1, BETA_2 = 0.9, 0.98

# The weights; the averages of gradients and of their squares; steps taken.
State = tuple[model.Params, model.Params, model.Params, Any]

_CUSTOM_CALL = re.compile(r'custom_call_target="([^"]+)"')
_COLLECTIVE = re.compile(
    r" (all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)"
    r"(?:-start)?\("
)


class Trainer:
    """One model in training: its weights, its compiled step, its history.

    Every device holds all the weights and takes an equal share of each batch;
    `jit` adds the sum of the gradients over the devices by itself.

    Args:
      norm: the RMS norm that the model uses.
      params: the weights to start from; copied, so that runs can share them.
      mesh: one axis, "batch", of type Auto.
      batch_shape: (B, T + 1), B a multiple of the devices.
      steps: how many steps the learning rate is planned for.
    """

    def __init__(
        self,
        norm: model.Norm,
        params: model.Params,
        mesh: Mesh,
        batch_shape: tuple[int, int],
        steps: int,
    ) -> None:
        everywhere = NamedSharding(mesh, PartitionSpec())
        self._by_batch = NamedSharding(mesh, PartitionSpec("batch"))

        def step(state: State, windows: jax.Array) -> tuple[State, jax.Array]:
            loss, gradient = jax.value_and_grad(model.loss)(
                state[0], windows, norm
            )
            return adam(state, gradient, steps), loss

        # jnp.array copies: `step` donates its state, and so would delete the
        # weights that the other run starts from.
        params = jax.tree.map(jnp.array, params)
        zeros = jax.tree.map(np.zeros_like, params)
        self._state = jax.device_put(
            (params, zeros, zeros, np.int32(0)), everywhere
        )
        windows = jax.ShapeDtypeStruct(
            batch_shape, jnp.int32, sharding=self._by_batch
        )
        self._step = (
            jax.jit(step, out_shardings=everywhere, donate_argnums=0)
            .lower(self._state, windows)
            .compile()
        )
        self._hlo = self._step.as_text() or ""
        # Each sequence by itself, under vmap.
        self._losses = jax.jit(
            jax.vmap(
                lambda params, window: model.loss(params, window, norm),
                in_axes=(None, 0),
            )
        )
        self.losses: list[float] = []  # of each step's batch, before the step

    @property
    def params(self) -> model.Params:
        """The weights now, a copy on each device."""
        return self._state[0]

    def step(self, windows: np.ndarray) -> None:
        """Takes one step on int32[B, T + 1]."""
        on_devices = jax.device_put(windows, self._by_batch)
        self._state, loss = self._step(self._state, on_devices)
        self.losses.append(float(loss))

    def evaluate(self, windows: np.ndarray) -> float:
        """The loss on int32[B, T + 1], in nats per character."""
        on_devices = jax.device_put(windows, self._by_batch)
        return float(self._losses(self.params, on_devices).mean())

    def custom_calls(self) -> collections.Counter[str]:
        """How often the compiled step calls each of the C++ handlers."""
        found = collections.Counter(_CUSTOM_CALL.findall(self._hlo))
        return collections.Counter(
            {name: n for name, n in found.items() if name in ops.HANDLERS}
        )

    def collectives(self) -> collections.Counter[str]:
        """How many collectives of each kind the compiled step has."""
        return collections.Counter(_COLLECTIVE.findall(self._hlo))


def adam(state: State, gradient: model.Params, steps: int) -> State:
    """One step of Adam (arXiv 1412.6980).

    The learning rate rises over the first steps and falls to zero at the end.
    """
    params, mean, square, count = state
    count = count + 1
    rate = LEARNING_RATE * jnp.minimum(count / WARM_UP, 1 - count / (steps + 1))

    def average(old: Any, new: Any, beta: float) -> Any:
        return jax.tree.map(lambda o, n: beta * o + (1 - beta) * n, old, new)

    mean = average(mean, gradient, BETA_1)
    square = average(square, jax.tree.map(jnp.square, gradient), BETA_2)

    def update(weight: jax.Array, m: jax.Array, s: jax.Array) -> jax.Array:
        m = m / (1 - BETA_1**count)  # both averages started from zero
        s = s / (1 - BETA_2**count)
        return weight - rate * m / (jnp.sqrt(s) + 1e-8)

    return jax.tree.map(update, params, mean, square), mean, square, count
