"""FINUFFT's own numbers, and JAX's derivatives of the sums."""

import functools

import finufft
import jax
import jax.numpy as jnp
import numpy as np

import nufft
from xla_ffi_kit.testing import CHECKS, Case, check_op

jax.config.update("jax_num_cpu_devices", 4)
RNG = np.random.default_rng(0)
POINTS = RNG.uniform(-3, 3, (4, 40))
MODES, VALUES = (RNG.normal(size=(4, n, 2)) @ [1, 1j] for n in (16, 40))


def host(values, points, *, modes=0, xp=np):
    n = modes or values.shape[-1]
    waves = xp.exp(1j * points[..., None] * (xp.arange(n) - n // 2))
    if modes:
        waves = waves.mT.conj()
    return (waves @ values[..., None])[..., 0]


def test_values_are_finuffts():
    got = nufft.transform(MODES, POINTS)
    back = nufft.transform(VALUES, POINTS, modes=16)
    for i in range(4):
        want = finufft.nufft1d2(POINTS[i], MODES[i], eps=1e-12, isign=1)
        np.testing.assert_allclose(got[i], want, rtol=1e-12)
        want = finufft.nufft1d1(POINTS[i], VALUES[i], 16, eps=1e-12, isign=-1)
        np.testing.assert_allclose(back[i], want, rtol=1e-12)


def test_derivatives_are_those_of_the_sums():
    def slopes(transform):
        def loss(values, points):
            sums = transform(values, points)
            back = transform(jnp.sin(sums), points, modes=5)
            return jnp.sum(jnp.abs(sums)) + jnp.sum(jnp.abs(back))

        def square(values, points):
            return jnp.sum(jnp.abs(jax.grad(loss, 1)(values, points)) ** 2)

        return [jax.grad(f, (0, 1))(MODES, POINTS) for f in (loss, square)]

    want = slopes(functools.partial(host, xp=jnp))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-8),
        *(slopes(nufft.transform), want),
    )


def test_contract():
    skip = {*CHECKS} - {"vmap", "auto mesh", "explicit mesh", "export"}
    case = Case(MODES[0], POINTS[0])
    check_op(nufft.transform, [case], host=host, skip=skip)
