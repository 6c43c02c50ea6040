"""MuJoCo's own numbers: its bits, differences of its rollouts, 64 worlds."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import physics

jax.config.update("jax_num_cpu_devices", 4)
MODEL = mujoco.MjModel.from_xml_string(physics.CART)
DATA = mujoco.MjData(MODEL)
X, US = np.array([0.98, 0.1, 0.0, 0.0]), np.cos(np.arange(50) / 50)[:, None]


def theirs(x, us):
    (DATA.qpos[:], DATA.qvel[:]) = np.split(x, 2)
    for DATA.ctrl[:] in us:
        mujoco.mj_step(MODEL, DATA)
    return np.concatenate([DATA.qpos, DATA.qvel])


def loss(x, us):
    return jnp.sum(jnp.cos(physics.rollout(x, us)))


def difference(move_x, move_us):
    """How MuJoCo's loss changes with an operand, in this direction."""
    step = 1e-5
    ends = [
        theirs(X + sign * step * move_x, US + sign * step * move_us)
        for sign in (1, -1)
    ]
    return (np.cos(ends[0]).sum() - np.cos(ends[1]).sum()) / (2 * step)


def test_the_bits_of_mujoco():
    got = jax.jit(physics.rollout)(X, US)
    np.testing.assert_array_equal(got, theirs(X, US))
    assert DATA.nefc == 1  # the cart leans on the end of its rail


def test_gradients_are_differences_of_mujocos_rollouts():
    dx, dus = jax.jit(jax.grad(loss, (0, 1)))(X, US)
    want = [difference(move, 0) for move in np.eye(4)]
    np.testing.assert_allclose(dx, want, rtol=1e-4, atol=1e-6)
    want = [difference(0, move[:, None]) for move in np.eye(50)]
    np.testing.assert_allclose(dus[:, 0], want, rtol=1e-4, atol=1e-6)


def test_64_worlds_on_four_devices():
    worlds = X + np.linspace(-1, 0, 64)[:, None]
    sharding = NamedSharding(jax.make_mesh((4,), ("worlds",)), P("worlds"))
    run = jax.jit(jax.vmap(jax.value_and_grad(loss), (0, None)))
    compiled = run.lower(jax.device_put(worlds, sharding), US).compile()
    values, slopes = compiled(jax.device_put(worlds, sharding), US)
    assert "all-gather" not in compiled.as_text()
    assert not slopes.sharding.is_fully_replicated
    want = [np.cos(theirs(x, US)).sum() for x in worlds]
    np.testing.assert_allclose(values, want, rtol=1e-12)
    alone = jax.grad(loss)(worlds[63], US)
    np.testing.assert_allclose(np.asarray(slopes)[63], alone, rtol=1e-9)


def test_a_wrong_model_is_mujocos_error():
    with pytest.raises(Exception, match="XML parse error"):
        jax.block_until_ready(physics.step(X, US[0], model="<mujoco>"))
