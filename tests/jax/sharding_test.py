"""Sharding: batch shards stay in place, forward and backward."""

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

import xla_ffi_kit
from xla_ffi_kit import modular_add, relu, rms_norm

COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "permute")


def mesh_of(kind, shape=(4,), names=("d",)):
    return jax.make_mesh(shape, names, axis_types=(kind,) * len(names))


def collectives(function, *args):
    text = jax.jit(function).lower(*args).compile().as_text()
    return [name for name in COLLECTIVES if name in text]


def data(shape=(8, 6, 16)):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape), np.float32)


OPS = {
    "rms_norm": rms_norm,
    "relu": relu,
    "modular_add": lambda x: modular_add(x[..., :3], x),
}


def grad_of(op):
    return lambda x: jax.grad(lambda x: jnp.sum(op(x) ** 2 * x))(x)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("spec", [P("d"), P(None, "e"), P("d", "e")])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_batch_shards_stay_in_place(name, spec, backward, kind):
    mesh = mesh_of(kind, (2, 2), ("d", "e"))
    f = grad_of(OPS[name]) if backward else OPS[name]
    x = data()
    want = f(x)
    with jax.set_mesh(mesh):
        sharded = jax.device_put(x, NamedSharding(mesh, spec))
        assert collectives(f, sharded) == []
        got = jax.jit(f)(sharded)
    assert got.sharding.is_equivalent_to(sharded.sharding, x.ndim)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_eager_call_keeps_the_sharding(kind):
    mesh = mesh_of(kind)
    x = jax.device_put(data(), NamedSharding(mesh, P("d")))
    assert rms_norm(x).sharding.is_equivalent_to(x.sharding, x.ndim)


def test_explicit_output_type():
    mesh = mesh_of(AxisType.Explicit)
    with jax.set_mesh(mesh):
        x = jax.device_put(data(), NamedSharding(mesh, P("d")))
        y = jax.eval_shape(rms_norm, x)
    assert tuple(y.sharding.spec) == ("d", None, None)


def test_auto_mesh_gathers_a_sharded_kernel_axis():
    mesh = mesh_of(AxisType.Auto)
    x = data()
    sharded = jax.device_put(x, NamedSharding(mesh, P(None, None, "d")))
    assert collectives(rms_norm, sharded) == ["all-gather"]
    np.testing.assert_allclose(
        jax.jit(rms_norm)(sharded), rms_norm(x), rtol=1e-6
    )


def of_rows(**options):
    return xla_ffi_kit.FfiOp(
        "xla_ffi_kit.relu",
        jax.nn.relu,
        axes="(n)->(n)",
        libraries=xla_ffi_kit.ops.LIBRARIES,
        advanced=xla_ffi_kit.Advanced(**options),
    )


@pytest.mark.parametrize("way", ["gather", "restore"])
def test_auto_mesh_shards_a_kernel_axis_of_results_again(way):
    op = of_rows(sharded_kernel_axes=way)
    x = data()
    sharding = NamedSharding(mesh_of(AxisType.Auto), P(None, None, "d"))
    x = x[:, :4]  # the devices divide both batch axes
    sharded = jax.device_put(x, sharding)
    assert collectives(op, sharded) == ["all-gather"]
    got = jax.jit(op)(sharded)
    is_restored = got.sharding.is_equivalent_to(sharding, got.ndim)
    assert is_restored == (way == "restore")
    np.testing.assert_array_equal(got, jnp.maximum(x, 0))


def test_attributes_of_a_rank_do_not_keep_xla_from_splitting_a_call():
    x = jax.ShapeDtypeStruct(
        (8, 16),
        np.float32,
        sharding=NamedSharding(mesh_of(AxisType.Auto), P("d")),
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


def test_explicit_mesh_refuses_a_sharded_kernel_axis():
    mesh = mesh_of(AxisType.Explicit)
    with jax.set_mesh(mesh):
        x = jax.device_put(data(), NamedSharding(mesh, P(None, None, "d")))
        with pytest.raises(ValueError) as caught:
            rms_norm(x)
    assert str(caught.value) == (
        "xla_ffi_kit.rms_norm: operand x: axis -1 is sharded over 'd', "
        "expected it not to be: kernel axes must not be sharded; reshard it "
        "first with jax.sharding.reshard, or define the operation with "
        "advanced=Advanced(sharded_kernel_axes='gather')"
    )


def test_explicit_mesh_gathers_if_the_spec_says_so():
    op = xla_ffi_kit.FfiOp(
        "xla_ffi_kit.relu",
        jax.nn.relu,
        kernel_axes=1,
        handlers={"cpu": "xla_ffi_kit.relu"},
        libraries=xla_ffi_kit.ops.LIBRARIES,
        advanced=xla_ffi_kit.Advanced(sharded_kernel_axes="gather"),
    )
    mesh = mesh_of(AxisType.Explicit, (2, 2), ("d", "e"))
    x = data()
    with jax.set_mesh(mesh):
        sharded = jax.device_put(x, NamedSharding(mesh, P("d", None, "e")))
        y = jax.jit(op)(sharded)
        assert collectives(op, sharded) == ["all-gather"]
    assert tuple(y.sharding.spec)[:1] == ("d",)
    np.testing.assert_array_equal(y, jnp.maximum(x, 0))


def test_explicit_mesh_names_operands_that_disagree():
    mesh = mesh_of(AxisType.Explicit, (2, 2), ("d", "e"))
    with jax.set_mesh(mesh):
        b = jax.device_put(data((4, 3)), NamedSharding(mesh, P("d")))
        c = jax.device_put(data((4, 9)), NamedSharding(mesh, P("e")))
        with pytest.raises(ValueError, match="operand c: axis 0 is sharded"):
            modular_add(b, c)


@pytest.mark.parametrize("check", [True, False])
def test_shard_map(check):
    mesh = mesh_of(AxisType.Auto)
    x, w = data((8, 16)), data((16,))

    def loss(x, w):
        return jnp.sum(rms_norm(x, w) ** 2 * x)

    @jax.jit
    def sharded_loss(x, w):
        def local(x, w):
            return jax.lax.psum(loss(x, w), "d")

        return jax.shard_map(
            local,
            mesh=mesh,
            in_specs=(P("d"), P()),
            out_specs=P(),
            check_vma=check,
        )(x, w)

    want = jax.value_and_grad(loss, (0, 1))(x, w)
    got = jax.value_and_grad(sharded_loss, (0, 1))(x, w)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


def test_shard_map_gradient_of_a_replicated_operand():
    mesh = mesh_of(AxisType.Auto)
    b, c = data((3,)), data((8, 16))

    def loss(b, c):
        wide = jnp.broadcast_to(b, (*c.shape[:-1], b.shape[0]))
        return jnp.sum(modular_add(wide, c) ** 2)

    def mapped(b, c):
        def local(b, c):
            rows = [modular_add(b, row) ** 2 for row in c]
            return jax.lax.psum(jnp.sum(jnp.stack(rows)), "d")

        return jax.shard_map(
            local, mesh=mesh, in_specs=(P(), P("d")), out_specs=P()
        )(b, c)

    want = jax.grad(loss, (0, 1))(b, c)
    got = jax.grad(mapped, (0, 1))(b, c)
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_vmap_over_a_sharded_axis(kind):
    mesh = mesh_of(kind)
    b, c = data((3,)), data((8, 16))
    want = jax.vmap(modular_add, (None, 0))(b, c)
    with jax.set_mesh(mesh):
        sharded = jax.device_put(c, NamedSharding(mesh, P("d")))
        whole = jax.device_put(b, NamedSharding(mesh, P()))
        f = jax.vmap(modular_add, (None, 0))
        assert collectives(f, whole, sharded) == []
        got = jax.jit(f)(whole, sharded)
    assert got.sharding.is_equivalent_to(sharded.sharding, 2)
    np.testing.assert_allclose(got, want)
