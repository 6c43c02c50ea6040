"""Several devices: who gathers, who does not; four CPUs stand for them."""

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
)

import jax
import numpy as np
import pytest
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from rms_norm import reference, rms_norm, rms_norm_op

X = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)


def sharded():
    mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))
    return mesh, jax.device_put(X, NamedSharding(mesh, P("d")))


def test_a_raw_call_gathers():
    _, x = sharded()
    text = jax.jit(rms_norm).lower(x).compile().as_text()
    assert "all-gather(" in text and "f32[8,16]{1,0} custom-call" in text
    assert jax.jit(rms_norm)(x).sharding.spec == P()


def by_shard_map(mesh, x):
    of_one = jax.shard_map(
        rms_norm,
        mesh=mesh,
        in_specs=P("d"),
        out_specs=P("d"),
    )
    return of_one(x)


@custom_partitioning
def partitioned(x):
    return rms_norm(x)


def partition(mesh, operands, result):
    spec = tuple(operands[0].sharding.spec) + (None,) * len(operands[0].shape)
    rows = P(*spec[: len(operands[0].shape) - 1], None)  # whole last axis
    sharding = NamedSharding(mesh, rows)
    return mesh, rms_norm, sharding, (sharding,)


partitioned.def_partition(
    partition=partition,
    sharding_rule="... n -> ... n",
    need_replication_factors=("n",),
)


@pytest.mark.parametrize(
    "norm",
    [by_shard_map, lambda _, x: partitioned(x), lambda _, x: rms_norm_op(x)],
    ids=["shard_map", "custom_partitioning", "ffi_op"],
)
def test_the_rows_stay_where_they_are(norm):
    mesh, x = sharded()
    f = jax.jit(lambda x: norm(mesh, x))
    np.testing.assert_allclose(f(x), reference(X), 1e-6)
    assert f(x).sharding.is_equivalent_to(x.sharding, 2)
    text = f.lower(x).compile().as_text()
    assert "all-gather" not in text and "f32[2,16]{1,0} custom-call" in text


def test_pmap_is_shard_map_over_the_first_axis():
    parts = X.reshape(4, 2, 16)
    f = jax.pmap(rms_norm)
    np.testing.assert_allclose(f(parts), reference(parts), 1e-6)
    assert len(f(parts).sharding.device_set) == 4
    assert "all-gather" not in f.lower(parts).compile().as_text()


def test_an_ffi_op_on_an_explicit_mesh_and_its_gradient():
    mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = jax.device_put(X, NamedSharding(mesh, P("d")))
        gradient = jax.jit(jax.grad(lambda x: (rms_norm_op(x) ** 3).sum()))
        assert gradient(x).sharding.spec == P("d", None)
        assert "all-gather" not in gradient.lower(x).compile().as_text()
