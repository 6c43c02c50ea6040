"""Algorithms with queues, stacks and sorts that differentiate themselves.

JAX has none of them, so there is no reference: values are compared with Python,
derivatives with differences.
"""

import os
import tempfile

os.environ["XLA_FFI_KIT_CACHE"] = tempfile.mkdtemp(
    dir=os.environ.get("TEST_TMPDIR")
)
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
)

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import strings_on_host
from jax.sharding import NamedSharding, PartitionSpec

from strings_kernels import kernels


@pytest.fixture(autouse=True)
def _doubles():
    with jax.enable_x64(True):
        yield


_SHORTEST_PATH, _ISOTONIC, _SIMULATION = (
    kernels()[name].operation(dtypes="f64", flags=["-O1"])
    for name in (
        "shortest path",
        "isotonic regression",
        "queue with two servers",
    )
)
_RNG = np.random.default_rng(3)
_KINDS = {
    "shortest path": (
        _SHORTEST_PATH,
        strings_on_host.shortest_path,
        [_RNG.uniform(0.5, 2, (4, 3, 5))],
    ),
    "isotonic": (
        _ISOTONIC,
        strings_on_host.isotonic,
        [_RNG.normal(size=(4, 9)), _RNG.uniform(0.5, 2, (4, 9))],
    ),
    "simulation": (
        lambda *x: _SIMULATION(*x)[0],
        lambda *x: strings_on_host.simulate(*x)[0],
        [_RNG.uniform(0, 5, (4, 8)), _RNG.uniform(0.8, 1.5, (4, 8))],
    ),
}
kinds = pytest.mark.parametrize(
    ("op", "host", "operands"), _KINDS.values(), ids=_KINDS
)


def _loss(op):
    return lambda *x: jnp.sum(jnp.sin(op(*x)))


def _slope(f, operands, along, h=1e-6):
    """The difference of f in a direction."""
    ahead, behind = (
        f(*(x + s * h * v for x, v in zip(operands, along, strict=True)))
        for s in (1, -1)
    )
    return jax.tree.map(lambda a, b: (a - b) / (2 * h), ahead, behind)


@kinds
def test_values_and_first_derivatives(op, host, operands):
    want = np.stack([host(*row) for row in zip(*operands, strict=True)])
    np.testing.assert_allclose(op(*operands), want, rtol=1e-12)
    loss, every = jax.jit(_loss(op)), range(len(operands))
    slopes = jax.jit(jax.grad(loss, every))(*operands)
    along = [_RNG.normal(size=x.shape) for x in operands]
    got = sum(np.sum(s * v) for s, v in zip(slopes, along, strict=True))
    np.testing.assert_allclose(got, _slope(loss, operands, along), rtol=1e-7)
    # Of one row at a time, and of all.
    rows = jax.jit(jax.vmap(jax.grad(loss, every)))(*operands)
    for a, b in zip(slopes, rows, strict=True):
        np.testing.assert_array_equal(a, b)


@kinds
def test_second_derivatives(op, host, operands):
    every, along = range(len(operands)), operands[::-1]
    gradient = jax.jit(jax.grad(_loss(op), every))
    want = _slope(gradient, operands, along)
    pushed = jax.jit(lambda *x: jax.jvp(gradient, x, tuple(along))[1])
    for a, b in zip(pushed(*operands), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)

    def product(*x):
        pairs = zip(gradient(*x), along, strict=True)
        return sum(jnp.sum(s * v) for s, v in pairs)

    pulled = jax.jit(jax.grad(product, every))(*operands)
    for a, b in zip(pulled, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


@kinds
def test_on_two_devices(op, host, operands):
    gradient = jax.jit(jax.grad(_loss(op), range(len(operands))))
    mesh = jax.make_mesh((2,), ("i",), devices=jax.devices()[:2])
    sharding = NamedSharding(mesh, PartitionSpec("i"))
    sharded = [jax.device_put(x, sharding) for x in operands]
    for a, b in zip(gradient(*sharded), gradient(*operands), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.sharding.is_equivalent_to(sharding, a.ndim)
