"""e3nn-jax: spherical harmonics and tensor products of 2,000 edges."""

import e3nn_jax as e3nn
import jax
import jax.numpy as jnp


def program():
    x = e3nn.normal("8x0e + 8x1o + 4x2e", jax.random.key(0), (2000,))
    edges = jax.random.normal(jax.random.key(1), (2000, 3))

    @jax.jit
    def run(x, edges):
        harmonics = e3nn.spherical_harmonics("0e + 1o + 2e", edges, True)
        product = e3nn.tensor_product(x, harmonics, filter_ir_out="0e + 1o")
        return jnp.sum(product.array**2), product.array

    return lambda: run(x, edges)
