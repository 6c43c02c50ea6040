"""optax: 100 steps of Adam, a network of two layers on 256 rows."""

import jax
import jax.numpy as jnp
import optax


def program():
    x = jax.random.normal(jax.random.key(0), (256, 64))
    y = jnp.sin(x.sum(-1))
    keys = jax.random.split(jax.random.key(1))
    start = [
        jax.random.normal(keys[0], (64, 128)) / 8,
        jax.random.normal(keys[1], (128, 1)) / 11,
    ]
    adam = optax.adam(1e-3)

    def loss(w):
        return jnp.mean((jnp.tanh(x @ w[0]) @ w[1] - y[:, None]) ** 2)

    @jax.jit
    def train(w):
        def step(carry, _):
            w, state = carry
            value, gradient = jax.value_and_grad(loss)(w)
            updates, state = adam.update(gradient, state)
            return (optax.apply_updates(w, updates), state), value

        return jax.lax.scan(step, (w, adam.init(w)), length=100)[1]

    return lambda: train(start)
