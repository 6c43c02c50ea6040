"""flax: a training step of a convolutional network with max pooling."""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn


class _Network(nn.Module):
    @nn.compact
    def __call__(self, x):
        for features in (32, 64):
            x = nn.relu(nn.Conv(features, (3, 3))(x))
            x = nn.max_pool(x, (2, 2), (2, 2))
        x = nn.relu(nn.Dense(128)(x.reshape(x.shape[0], -1)))
        return nn.Dense(10)(x)


def program():
    model = _Network()
    x = jax.random.normal(jax.random.key(0), (64, 28, 28, 1))
    y = jnp.arange(64) % 10
    parameters = model.init(jax.random.key(1), x)

    def loss(parameters):
        logits = model.apply(parameters, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    step = jax.jit(jax.value_and_grad(loss))
    return lambda: step(parameters)
