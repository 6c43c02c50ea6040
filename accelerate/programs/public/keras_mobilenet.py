"""Keras on JAX: MobileNetV2's prediction of 8 images."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras


def program():
    keras.utils.set_random_seed(0)
    model = keras.applications.MobileNetV2(
        input_shape=(160, 160, 3), weights=None
    )
    x = jax.random.normal(jax.random.key(0), (8, 160, 160, 3))
    values = [v.value for v in model.trainable_variables]
    rest = [v.value for v in model.non_trainable_variables]
    run = jax.jit(lambda v, r, x: model.stateless_call(v, r, x)[0])
    return lambda: run(values, rest, x)
