"""accelerate: sharded rows and batches are computed where they are."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import program
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import xla_ffi_accelerate

COLLECTIVES = ("all-gather", "all-to-all", "all-reduce", "collective-permute")
X = np.random.default_rng(0).standard_normal((8, 4, 32)).astype(np.float32)
MATRICES = X.reshape(64, 4, 4)
MATRICES = MATRICES @ MATRICES.swapaxes(1, 2) + np.eye(4, dtype="f")
TYPES = pytest.mark.parametrize(
    "axis_type", [AxisType.Auto, AxisType.Explicit], ids=str
)


def mesh(axis_type=AxisType.Auto):
    return jax.make_mesh((4,), ("i",), axis_types=(axis_type,))


def put(x, *spec, axis_type=AxisType.Auto):
    return jax.device_put(x, NamedSharding(mesh(axis_type), P(*spec)))


def run(f, *x):
    """The result, and the collectives of the compiled program."""
    compiled = jax.jit(f).lower(*x).compile()
    text = compiled.as_text()
    return compiled(*x), {c for c in COLLECTIVES if c in text}, text


def check(f, *x, names=()):
    """Same results and sharding as JAX's own; returns the collectives."""
    with xla_ffi_accelerate.disabled():
        want, own, _ = run(f, *x)
    with xla_ffi_accelerate.enabled(*names):
        got, collectives, text = run(f, *x)
    assert 'custom_call_target="xla_ffi_accelerate.' in text
    assert collectives <= own | {"all-gather"}
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_array_equal(np.asarray(g), np.asarray(w))
        assert g.sharding.is_equivalent_to(w.sharding, g.ndim)
    return collectives


@TYPES
@pytest.mark.parametrize("axis", [-1, 1])
def test_sharded_rows_stay_where_they_are(axis_type, axis):
    def every(x):
        found = [
            jnp.sort(x, axis=axis),
            jnp.argsort(x, axis=axis),
            jax.lax.top_k(x.astype(np.int32), 3, axis=axis),
        ]
        if axis == -1:
            found += [jnp.argmax(x, axis=-1), jnp.cumsum(x, axis=-1)]
        return found

    assert not check(every, put(X, "i", axis_type=axis_type))


@TYPES
def test_sharded_matrices_stay_where_they_are(axis_type):
    x = X.reshape(8, 8, 4, 4)

    def every(x):
        products = x @ x.swapaxes(2, 3)
        return products, jax.vmap(jax.grad(lambda x: ((x @ x) ** 2).sum()))(x)

    for spec in (("i",), (None, "i")):
        assert not check(every, put(x, *spec, axis_type=axis_type))
    a = put(MATRICES, "i", axis_type=axis_type)
    with xla_ffi_accelerate.enabled("linalg"):
        got, collectives, text = run(jnp.linalg.cholesky, a)
    assert "xla_ffi_accelerate.linalg_" in text and not collectives
    assert got.sharding.is_equivalent_to(a.sharding, got.ndim)
    np.testing.assert_allclose(got, np.linalg.cholesky(MATRICES), 1e-4, 1e-4)


@pytest.mark.parametrize("spec", [P("i"), P(None, None, "i")])
def test_other_lines_of_a_sharded_array_are_left_to_jax(spec):
    x = put(np.swapaxes(X, 1, 2), *spec)
    with xla_ffi_accelerate.enabled():
        for f in (jnp.argmax, jnp.cumsum):
            _, collectives, text = run(lambda x, f=f: f(x, axis=1), x)
            assert not collectives
            assert "xla_ffi_accelerate." not in text


def test_a_sharded_vector_is_reduced_where_it_is():
    x = put(np.arange(4096, dtype=np.int32), "i")
    with xla_ffi_accelerate.enabled():
        for f in (jnp.argmax, jnp.cumsum):
            _, _, text = run(f, x)
            assert "xla_ffi_accelerate." not in text


@pytest.mark.parametrize("x", [X, X[0, 0]], ids=["rows", "one row"])
def test_sharded_sort_axis_is_gathered(x):
    spec = *[None] * (x.ndim - 1), "i"
    assert check(jnp.sort, put(x, *spec)) == {"all-gather"}


def test_transformations_and_shard_map():
    m = mesh()
    part = {"mesh": m, "in_specs": P("i"), "out_specs": P("i")}

    def every(x):
        return (
            jax.vmap(lambda x: jnp.sort(x, axis=0))(x),
            jax.grad(lambda x: jnp.sort(x)[..., 3:].sum())(x),
            jax.shard_map(jnp.sort, **part)(x),
        )

    assert not check(every, put(X, "i"))


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


CONV, K = ["conv_general_dilated"], np.ones((3, 3, 1, 32), "f")


def conv(x, k):
    return jax.lax.conv_general_dilated(
        *(x, k, (1, 1), "SAME"),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=32,
    )


@TYPES
def test_convolutions(axis_type):
    """XLA splits its own; each shard of `shard_map` has the kernel."""
    images = np.random.default_rng(0).standard_normal((8, 9, 10, 32), "f")
    x = put(images, "i", axis_type=axis_type)
    mapped = jax.shard_map(
        conv, mesh=mesh(axis_type), in_specs=(P("i"), P()), out_specs=P("i")
    )
    called = f"@xla_ffi_accelerate.{CONV[0]}("
    assert called not in program(conv, x, K, names=CONV)
    # XLA of jax 0.8.1 sums in another order.
    if jax.__version_info__ >= (0, 9):
        assert not check(mapped, x, K, names=CONV)
        one = jax.make_mesh((1,), ("i",), axis_types=(axis_type,))
        alone = jax.device_put(images, NamedSharding(one, P("i")))
        assert called in program(conv, alone, K, names=CONV)


def test_each_device_draws_its_part():
    keys = put(jax.random.split(jax.random.key(7), 8), "i")

    sharding = NamedSharding(mesh(), P("i"))

    def of_keys(keys):
        return jax.vmap(lambda k: jax.random.bits(k, (30,)))(keys)

    def f(key, keys):
        many = jax.random.uniform(key, (64, 3))
        many = jax.lax.with_sharding_constraint(many, sharding)
        return many, of_keys(keys)

    key = put(jax.random.key(3))
    with xla_ffi_accelerate.disabled():
        own = jax.jit(f)(key, keys)
    with xla_ffi_accelerate.enabled("random"):
        got, collectives, text = run(lambda *x: f(*x), key, keys)
    assert not collectives and "xla_ffi_accelerate." not in text
    split = jax.shard_map(
        of_keys, mesh=mesh(), in_specs=P("i"), out_specs=P("i")
    )
    assert not check(split, keys, names=["random"])
    for g, w in zip(got, own, strict=True):
        np.testing.assert_array_equal(g, w)
