"""diffrax: 256 paths of an Ornstein-Uhlenbeck process."""

import diffrax
import jax
import jax.numpy as jnp


def program():
    def path(key):
        noise = diffrax.VirtualBrownianTree(0, 3, 1e-3, (), key)
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(lambda t, y, args: -y),
            diffrax.ControlTerm(lambda t, y, args: 0.3, noise),
        )
        return diffrax.diffeqsolve(
            terms,
            diffrax.Heun(),
            0,
            3,
            0.02,
            jnp.float32(1),
            saveat=diffrax.SaveAt(ts=jnp.linspace(0, 3, 20)),
        ).ys

    run = jax.jit(jax.vmap(path))
    return lambda: run(jax.random.split(jax.random.key(0), 256))
