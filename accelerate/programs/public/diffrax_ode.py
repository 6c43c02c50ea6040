"""diffrax: a Lotka-Volterra equation by Tsit5, with its gradient."""

import diffrax
import jax
import jax.numpy as jnp


def _field(t, y, args):
    a, b, c, d = args
    return jnp.stack([a * y[0] - b * y[0] * y[1], d * y[0] * y[1] - c * y[1]])


def program():
    def loss(args):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(_field),
            diffrax.Tsit5(),
            0,
            30,
            0.1,
            jnp.float32([10, 10]),
            args,
            stepsize_controller=diffrax.PIDController(1e-5, 1e-5),
        )
        return jnp.sum(solution.ys)

    run = jax.jit(jax.value_and_grad(loss))
    args = jnp.float32([0.1, 0.02, 0.4, 0.02])
    return lambda: run(args)
