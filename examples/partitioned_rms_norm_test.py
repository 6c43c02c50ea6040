"""partitioned_rms_norm: a sharded last axis costs one small all-reduce."""

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
)

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from partitioned_rms_norm import partitioned_op, partitioned_rms_norm
from xla_ffi_kit import rms_norm
from xla_ffi_kit.testing import Case, check_op

TOLERANCES = {"float32": 2e-6, "bfloat16": 2e-2}


def data(dtype, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=(4, 6, 32)), dtype)


def mesh():
    return jax.make_mesh((2, 2), ("d", "e"), axis_types=(AxisType.Auto,) * 2)


def loss_of(function):
    def loss(x, w):
        y = function(x, eps=1e-2)
        return jnp.sum((w * y * y).astype(jnp.float32))

    return loss


def shapes_of(text, what):
    lines = [line for line in text.splitlines() if f" {what}(" in line]
    return [line.split(" = ")[1].split("{")[0] for line in lines]


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    "spec", [P(None, None, "d"), P("d", None, "e"), P(None, None, ("d", "e"))]
)
def test_sharded_last_axis(spec, dtype):
    x, w = data(dtype), data(dtype, 1)
    sharding = NamedSharding(mesh(), spec)
    xs, ws = jax.device_put((x, w), sharding)
    y = jax.jit(partitioned_rms_norm)(xs)
    assert y.sharding.is_equivalent_to(sharding, x.ndim)
    tolerance = TOLERANCES[dtype]
    np.testing.assert_allclose(
        np.asarray(y, np.float32),
        np.asarray(rms_norm(x), np.float32),
        atol=4 * tolerance,
    )
    grad = jax.jit(jax.grad(loss_of(partitioned_rms_norm)))
    got, want = grad(xs, ws), jax.grad(loss_of(rms_norm))(x, w)
    assert got.sharding.is_equivalent_to(sharding, x.ndim)
    scale = np.max(np.abs(np.asarray(want, np.float32)))
    np.testing.assert_allclose(
        np.asarray(got, np.float32),
        np.asarray(want, np.float32),
        atol=8 * tolerance * scale,
    )


def test_one_number_per_row_is_all_that_travels():
    x = jax.device_put(
        data("float32"), NamedSharding(mesh(), P(None, None, "d"))
    )
    text = jax.jit(partitioned_rms_norm).lower(x).compile().as_text()
    assert "all-gather" not in text
    assert shapes_of(text, "all-reduce") == ["f32[4,6]"]
    assert 'custom_call_target="xla_ffi_kit.rms_norm"' in text
    # What it saves: the plain operation gathers its operand.
    assert "all-gather" in jax.jit(rms_norm).lower(x).compile().as_text()


def test_batch_shards_need_no_collective():
    x = jax.device_put(data("float32"), NamedSharding(mesh(), P("d", "e")))
    text = jax.jit(partitioned_rms_norm).lower(x).compile().as_text()
    assert "all-" not in text


def test_any_order_and_any_batch():
    x = data("float32")
    v = data("float32", 1)
    sharded = jax.device_put(x, NamedSharding(mesh(), P(None, None, "d")))
    loss = loss_of(partitioned_rms_norm)
    want = loss_of(rms_norm)
    for transform in (
        lambda f: lambda x: jax.jvp(f, (x, v), (v, x))[1],
        lambda f: lambda x: jax.grad(lambda x: jnp.sum(jax.grad(f)(x, v)))(x),
        lambda f: lambda x: jax.vmap(jax.grad(f), 1, 1)(x, v),
    ):
        got = jax.jit(transform(loss))(sharded)
        expected = transform(want)(x)
        scale = float(jnp.max(jnp.abs(expected)))
        np.testing.assert_allclose(got, expected, atol=2e-5 * scale)
    f = jax.vmap(partitioned_rms_norm, 1)
    assert str(jax.make_jaxpr(f)(x)).count("partitioned_rms_norm[") == 1
    text = jax.jit(f).lower(sharded).compile().as_text()
    assert "all-gather" not in text
    assert shapes_of(text, "all-reduce") == ["f32[4,6]"]


def test_a_sharded_last_axis_of_an_explicit_mesh_is_refused():
    explicit = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(explicit):
        x = jax.device_put(
            data("float32"), NamedSharding(explicit, P(None, None, "d"))
        )
        with pytest.raises(ValueError) as caught:
            partitioned_rms_norm(x)
    assert str(caught.value).startswith(
        "example.partitioned_rms_norm: operand x: axis -1 is sharded over "
        "'d', expected it not to be"
    )


def test_without_a_mesh():
    x = data("float32")
    np.testing.assert_array_equal(partitioned_rms_norm(x), rms_norm(x))
    with pytest.raises(TypeError, match="partitioned_rms_norm: operand x: ex"):
        partitioned_rms_norm(jnp.arange(3))


def test_it_keeps_the_contract_of_an_operation():
    check_op(partitioned_op, [Case("float32[2,3]", eps=1e-3)])
