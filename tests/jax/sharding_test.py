"""What meshes do to the kit's operations.

check_op_test has what every operation does on a mesh of one axis: shards stay
in place, forwards and backwards, in vmap and shard_map too.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import collectives, mesh_of, on, operation, said
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import xla_ffi_kit
from xla_ffi_kit import modular_add, rms_norm

KINDS = ["Auto", "Explicit"]
ROW = ((4,), ("d",))  # a mesh of one axis


def data(shape=(8, 6, 16)):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape), np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_eager_call_keeps_the_sharding(kind):
    x = on(mesh_of(kind, *ROW), data(), "d")
    assert rms_norm(x).sharding.is_equivalent_to(x.sharding, x.ndim)


def test_explicit_output_type():
    mesh = mesh_of("Explicit", *ROW)
    with jax.set_mesh(mesh):
        x = on(mesh, data(), "d")
        y = jax.eval_shape(rms_norm, x)
    assert tuple(y.sharding.spec) == ("d", None, None)


def of_rows(**options):
    return xla_ffi_kit.FfiOp(
        "xla_ffi_kit.relu",
        jax.nn.relu,
        axes="(n)->(n)",
        libraries=xla_ffi_kit.ops.LIBRARIES,
        advanced=xla_ffi_kit.Advanced(**options),
    )


@pytest.mark.parametrize("way", [None, "gather", "restore"])
def test_auto_mesh_gathers_a_sharded_kernel_axis(way):
    """And shards that of results again if it is to be restored."""
    op = of_rows(sharded_kernel_axes=way) if way else rms_norm
    x = data()[:, :4]  # the devices divide both batch axes
    sharding = NamedSharding(mesh_of("Auto", *ROW), P(None, None, "d"))
    sharded = jax.device_put(x, sharding)
    assert collectives(op, sharded) == ["all-gather"]
    got = jax.jit(op)(sharded)
    is_restored = got.sharding.is_equivalent_to(sharding, got.ndim)
    assert is_restored == (way == "restore")
    np.testing.assert_allclose(got, op(x), rtol=1e-6)


def test_explicit_mesh_refuses_a_sharded_kernel_axis():
    mesh = mesh_of("Explicit", *ROW)
    with jax.set_mesh(mesh):
        x = on(mesh, data(), None, None, "d")
        assert said(rms_norm, x) == (
            "ValueError: xla_ffi_kit.rms_norm: operand x: axis -1 is sharded "
            "over 'd', expected it not to be: kernel axes must not be sharded; "
            "reshard it first with jax.sharding.reshard, or define the "
            "operation with advanced=Advanced(sharded_kernel_axes='gather')"
        )


def test_explicit_mesh_gathers_if_the_spec_says_so():
    op = of_rows(sharded_kernel_axes="gather")
    x = data()
    mesh = mesh_of("Explicit")
    with jax.set_mesh(mesh):
        sharded = on(mesh, x, "d", None, "e")
        y = jax.jit(op)(sharded)
        assert collectives(op, sharded) == ["all-gather"]
    assert tuple(y.sharding.spec)[:1] == ("d",)
    np.testing.assert_array_equal(y, jnp.maximum(x, 0))


def test_explicit_mesh_names_operands_that_disagree():
    mesh = mesh_of("Explicit")
    with jax.set_mesh(mesh):
        b = on(mesh, data((4, 3)), "d")
        c = on(mesh, data((4, 9)), "e")
        with pytest.raises(ValueError, match="operand c: axis 0 is sharded"):
            modular_add(b, c)


def test_explicit_mesh_a_cotangent_is_sharded_as_its_operand():
    op = operation(
        lambda x, y: x * y, linear="x", transpose=lambda ct, x, y: ct * y
    )
    mesh = mesh_of("Explicit", *ROW)
    with jax.set_mesh(mesh):
        whole, sharded = on(mesh, data()), on(mesh, data(), "d")
        got = jax.jit(jax.grad(lambda x, y: jnp.sum(op(x, y))))(whole, sharded)
    assert got.sharding.is_fully_replicated
    np.testing.assert_array_equal(got, data())


def test_attributes_of_a_rank_do_not_keep_xla_from_splitting_a_call():
    x = jax.ShapeDtypeStruct(
        (8, 16),
        np.float32,
        sharding=NamedSharding(mesh_of("Auto", *ROW), P("d")),
    )
    for attributes, splits in (
        (lambda x: {"axis": len(x.shape) - 1, "n": x.shape[-1]}, True),
        (lambda x: {"rows": x.shape[0]}, False),
        (lambda x: {"rows": x.size}, False),
        (lambda x: {"is_row": int(x.shape[0] == 1)}, False),
        (lambda x: {"some": int(bool(x.shape[0]))}, False),
        (lambda x: {"text": f"{x.shape}"}, False),
    ):
        text = jax.jit(of_rows(shape_attributes=attributes)).lower(x).as_text()
        assert ("num_batch_dims" in text) == splits


@pytest.mark.parametrize("kind", KINDS)
def test_vmap_over_a_sharded_axis(kind):
    """And not over an operand that all devices have."""
    mesh = mesh_of(kind, *ROW)
    b, c = data((3,)), data((8, 16))
    f = jax.vmap(modular_add, (None, 0))
    with jax.set_mesh(mesh):
        sharded = on(mesh, c, "d")
        whole = on(mesh, b)
        assert collectives(f, whole, sharded) == []
        got = jax.jit(f)(whole, sharded)
    assert got.sharding.is_equivalent_to(sharded.sharding, 2)
    np.testing.assert_allclose(got, f(b, c))
