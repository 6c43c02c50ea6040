"""accelerate: sharded rows are sorted where they are."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import sparse
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import xla_ffi_accelerate

COLLECTIVES = ("all-gather", "all-to-all", "all-reduce", "collective-permute")
X = np.random.default_rng(0).standard_normal((8, 4, 32)).astype(np.float32)


def mesh(axis_type):
    return jax.make_mesh((4,), ("i",), axis_types=(axis_type,))


def run(f, x):
    """The result, and the collectives of the compiled program."""
    compiled = jax.jit(f).lower(x).compile()
    text = compiled.as_text()
    return compiled(x), {c for c in COLLECTIVES if c in text}, text


def check(f, x):
    """Same bits and sharding as JAX's own; returns the collectives."""
    xla_ffi_accelerate.disable()
    want, own, _ = run(f, x)
    with xla_ffi_accelerate.enabled():
        got, collectives, text = run(f, x)
    assert 'custom_call_target="xla_ffi_accelerate.' in text
    assert collectives <= own | {"all-gather"}
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_array_equal(np.asarray(g), np.asarray(w))
        assert g.sharding.is_equivalent_to(w.sharding, g.ndim)
    return collectives


@pytest.mark.parametrize("axis_type", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("axis", [-1, 1])
def test_sharded_rows_stay_where_they_are(axis_type, axis):
    x = jax.device_put(X, NamedSharding(mesh(axis_type), P("i")))
    for f in (
        lambda x: jnp.sort(x, axis=axis),
        lambda x: jnp.argsort(x, axis=axis),
        lambda x: jax.lax.top_k(x.astype(np.int32), 3, axis=axis),
    ):
        assert not check(f, x)


@pytest.mark.parametrize("axis_type", [AxisType.Auto, AxisType.Explicit])
def test_sharded_lines_stay_where_they_are(axis_type):
    x = jax.device_put(X, NamedSharding(mesh(axis_type), P("i")))
    for f in (jnp.argmax, jnp.cumsum):
        assert not check(lambda x, f=f: f(x, axis=-1), x)


@pytest.mark.parametrize("spec", [P("i"), P(None, None, "i")])
def test_other_lines_of_a_sharded_array_are_left_to_jax(spec):
    x = np.swapaxes(X, 1, 2)
    x = jax.device_put(x, NamedSharding(mesh(AxisType.Auto), spec))
    with xla_ffi_accelerate.enabled():
        for f in (jnp.argmax, jnp.cumsum):
            _, collectives, text = run(lambda x, f=f: f(x, axis=1), x)
            assert not collectives
            assert "xla_ffi_accelerate." not in text


def test_vmapped_and_differentiated_rows():
    x = jax.device_put(X, NamedSharding(mesh(AxisType.Auto), P("i")))
    assert not check(jax.vmap(lambda x: jnp.sort(x, axis=0)), x)
    assert not check(jax.grad(lambda x: jnp.sort(x)[..., 3:].sum()), x)


@pytest.mark.parametrize("x", [X, X[0, 0]], ids=["rows", "one row"])
def test_sharded_sort_axis_is_gathered(x):
    spec = P(*[None] * (x.ndim - 1), "i")
    x = jax.device_put(x, NamedSharding(mesh(AxisType.Auto), spec))
    assert check(jnp.sort, x) == {"all-gather"}


def test_shard_map():
    m = mesh(AxisType.Auto)
    x = jax.device_put(X, NamedSharding(m, P("i")))
    f = jax.shard_map(jnp.sort, mesh=m, in_specs=P("i"), out_specs=P("i"))
    assert not check(f, x)


def test_shard_map_over_some_axes_of_the_mesh():
    m = jax.make_mesh((2, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2)
    x = np.swapaxes(X, 1, 2)
    x = jax.device_put(x, NamedSharding(m, P("i", None, "j")))

    def f(x, axis):
        return jax.shard_map(
            lambda x: jnp.cumsum(x, axis=axis),
            mesh=m,
            in_specs=P("i"),
            out_specs=P("i"),
            axis_names={"i"},
        )(x)

    # XLA partitions what is left: along one axis JAX's own code, which is split
    # over "j", and along the other the kit's.
    with xla_ffi_accelerate.enabled():
        _, collectives, text = run(lambda x: f(x, 1), x)
        assert not collectives
        assert "xla_ffi_accelerate." not in text
    y = jax.device_put(X, NamedSharding(m, P("i", "j")))
    assert not check(lambda y: f(y, 2), y)


def test_sparse_products_of_sharded_operands_are_left_to_jax():
    lhs = sparse.BCOO.fromdense(X[:, 0])
    rhs = np.tile(X[0, 0], (64, 1)).T
    sharding = NamedSharding(mesh(AxisType.Auto), P(None, "i"))
    with xla_ffi_accelerate.enabled():
        for x, called in (
            (rhs, True),
            (jax.device_put(rhs, sharding), False),
        ):
            _, _, text = run(lambda x: lhs @ x, x)
            assert ("xla_ffi_accelerate." in text) == called


@pytest.mark.parametrize("axis_type", [AxisType.Auto, AxisType.Explicit])
def test_sharded_matrices_stay_where_they_are(axis_type):
    x = X.reshape(8, 8, 4, 4)
    for spec in (P("i"), P(None, "i")):
        y = jax.device_put(x, NamedSharding(mesh(axis_type), spec))
        assert not check(lambda x: x @ x.swapaxes(2, 3), y)
        assert not check(jax.vmap(jax.grad(lambda x: ((x @ x) ** 2).sum())), y)
