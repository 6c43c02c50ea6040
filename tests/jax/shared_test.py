"""Operands that rows share: FfiOp's `shared`, and rms_norm's weight."""

import inline_data  # noqa: F401  four devices
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import xla_ffi_kit
from xla_ffi_kit import FfiOp, rms_norm
from xla_ffi_kit.ops.rms_norm import rms_norm_op, rms_norm_weight_bwd_op

NAME = "xla_ffi_kit.rms_norm"  # of the handler


def data(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=shape), np.float32)


def assert_close(got, want, tolerance=2e-5):
    leaves = zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True)
    for a, b in leaves:
        scale = max(1, np.max(np.abs(b), initial=0))
        np.testing.assert_allclose(a, b, atol=tolerance * scale)


def fused(x, w, r):
    y, total = rms_norm(x, w, residual=r)
    return y * total


def loss(x, w, r):
    return jnp.sum(fused(x, w, r) ** 2)


def program(function, *args):
    """The compiled program, as text."""
    return jax.jit(function).lower(*args).compile().as_text()


def targets(function, *args):
    """How often a program calls each of the kit's handlers."""
    names = [
        part.split('"')[0]
        for part in program(function, *args).split('custom_call_target="')[1:]
    ]
    return {n: names.count(n) for n in names if n.startswith("xla_ffi_kit")}


# --- The fused handlers run ---------------------------------------------------


def test_forward_and_backward_are_one_call_each():
    x, w = data(4, 6, 8), data(8, seed=1)
    assert targets(rms_norm, x, w) == {NAME: 1}
    f = lambda x, w, r: rms_norm(x, w, residual=r)  # noqa: E731
    assert targets(f, x, w, x) == {NAME: 1}
    assert targets(lambda x, r: rms_norm(x, residual=r), x, x) == {NAME: 1}
    both = {NAME: 1, f"{NAME}_weight_bwd": 1}
    assert targets(jax.grad(loss, (0, 1, 2)), x, w, x) == both
    plain = jax.grad(lambda x, w: jnp.sum(rms_norm(x, w) ** 2), (0, 1))
    assert targets(plain, x, w) == both


def test_a_sum_that_nobody_reads_needs_no_cotangent():
    x, w = data(4, 8), data(8, seed=1)
    grad = jax.grad(lambda x: jnp.sum(rms_norm(x, w, residual=x)[0] ** 2))
    assert f"{NAME}_weight_bwd" in targets(grad, x)
    only_sum = jax.grad(lambda x: jnp.sum(rms_norm(x, w, residual=x)[1] ** 2))
    assert_close(only_sum(x), 8 * x)
    assert not any("bwd" in name for name in targets(only_sum, x))


def test_the_weight_gradient_is_the_same_every_time():
    x, w = data(300, 64), data(64, seed=1)
    scale, ct = data(300, seed=2), data(300, 64, seed=3)
    first = rms_norm_weight_bwd_op(x, ct, scale, w)[1]
    for _ in range(5):
        again = rms_norm_weight_bwd_op(x, ct, scale, w)[1]
        np.testing.assert_array_equal(first, again)
    wide = np.asarray(x, np.float64) * np.asarray(scale)[:, None] * ct
    np.testing.assert_allclose(first, wide.sum(0), rtol=2e-6, atol=2e-5)


def test_a_function_in_the_handler_map():
    op = FfiOp(
        "test.scaled",
        lambda x, w: x * w,
        kernel_axes=1,
        handlers={"cpu": lambda x, w: rms_norm(x) * w},
        shared="w",
    )
    x, w = data(4, 8), data(8, seed=1)
    assert_close(op(x, w), rms_norm(x) * w)
    assert_close(op(x, w, implementation="reference"), x * w)
    ws = data(4, 8, seed=2)
    assert_close(jax.vmap(op)(x, ws), rms_norm(x) * ws)


# Linear in its two shared operands; its transpose is written by hand, sums over
# the rows and knows nothing of batch axes.
two_shared = FfiOp(
    "test.two_shared",
    lambda x, w, v: x * w + x[..., ::-1] * v,
    kernel_axes=1,
    handlers={"cpu": lambda x, w, v: x * w + x[..., ::-1] * v},
    shared=("w", "v"),
    linear=("w", "v"),
    transpose=lambda ct, x, w, v: tuple(
        jnp.sum((ct * rows).reshape(-1, rows.shape[-1]), 0)
        for rows in (x, x[..., ::-1])
    ),
)


_AXES = [((), (2,)), ((2,), (2, 4)), ((2, 4), (4,)), ((4,), (2,)), ((), (2, 4))]


@pytest.mark.parametrize(("w_axes", "v_axes"), _AXES)
def test_cotangents_have_the_batch_axes_of_their_operands(w_axes, v_axes):
    x = data(2, 4, 3, 8)
    w, v = data(*w_axes, 8, seed=1), data(*v_axes, 8, seed=2)
    ct = data(2, 4, 3, 8, seed=3)

    def nested(f):
        """vmap over 2, then over 4, of the operands that have these axes."""
        for size in (4, 2):
            axes = [0 if size in own else None for own in (w_axes, v_axes)]
            f = jax.vmap(f, (0, *axes))
        return f

    def loss(op, w, v):
        return jnp.sum(nested(op)(x, w, v) * ct)

    got = jax.grad(loss, (1, 2))(two_shared, w, v)
    want = jax.grad(loss, (1, 2))(two_shared.reference, w, v)
    assert_close(got, want)


# --- vmap ---------------------------------------------------------------------


# check_op_test has every choice of axes.
def test_a_weight_that_is_not_mapped_is_not_repeated():
    x, w = data(3, 5, 8), data(2, 8, seed=1)
    inner = jax.vmap(rms_norm, (None, 0))  # a batched weight
    f = jax.vmap(inner, (0, None))
    jaxpr = str(jax.make_jaxpr(f)(x, w))
    assert "f32[3,2,8]" not in jaxpr and "f32[2,3,8]" not in jaxpr
    want = jnp.stack([jnp.stack([rms_norm(a, b) for b in w]) for a in x])
    assert_close(f(x, w), want)


def test_gradients_of_the_weight_under_vmap():
    x, w, r = data(3, 5, 8), data(8, seed=1), data(3, 5, 8, seed=2)
    grad = jax.grad(loss, (0, 1, 2))
    each = [grad(a, w, b) for a, b in zip(x, r, strict=True)]
    want = [jnp.stack(parts) for parts in zip(*each, strict=True)]
    f = jax.vmap(grad, (0, None, 0))
    assert_close(f(x, w, r), want)  # one gradient of the weight per element
    assert targets(f, x, w, r)[f"{NAME}_weight_bwd"] == 1
    f = jax.grad(
        lambda *p: jnp.sum(jax.vmap(loss, (0, None, 0))(*p)), (0, 1, 2)
    )
    want[1] = jnp.sum(want[1], 0)
    assert_close(f(x, w, r), want)
    assert targets(f, x, w, r)[f"{NAME}_weight_bwd"] == 1


def test_a_rule_s_gradient_is_summed_for_what_is_not_mapped():
    op = FfiOp(
        "test.twice_scaled",
        lambda x, v, w: x * v * w,
        kernel_axes=1,
        handlers={},
        shared=("v", "w"),
        linear="w",
        transpose=lambda ct, x, v, _: jnp.sum(
            (ct * x * v).reshape(-1, x.shape[-1]), 0
        ),
    )
    x, v, w = data(5, 8), data(3, 8, seed=1), data(8, seed=2)
    for axes in ((None, 0, None), (0, 0, None)):
        xs = x if axes[0] is None else jnp.stack([x, 2 * x, 3 * x])

        def total(f, w, xs=xs, axes=axes):
            return jnp.sum(jax.vmap(f, axes)(xs, v, w) ** 2)

        got = jax.grad(lambda w, total=total: total(op, w))(w)
        want = jax.grad(lambda w, total=total: total(op.reference, w))(w)
        assert_close(got, want)


def test_a_handler_that_takes_no_batched_weight():
    op = FfiOp(
        NAME,
        lambda x, w, *, eps: rms_norm_op.reference(x, w, eps=eps),
        kernel_axes=1,
        libraries=xla_ffi_kit.ops.LIBRARIES[:1],
        attributes={"eps": np.float64},
        shared="w",
    )
    x, w = data(3, 8), data(3, 8, seed=1)

    def call(x, w):
        return op(x, w, eps=1e-6)

    assert targets(jax.vmap(call, (0, None)), x, w[0]) == {NAME: 1}
    f = jax.vmap(call)
    assert targets(f, x, w) == {}  # the reference
    assert str(jax.make_jaxpr(f)(x, w)).count(f" {NAME}[") == 1
    assert_close(f(x, w), jax.vmap(rms_norm)(x, w))


# --- Meshes -------------------------------------------------------------------


kinds = pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])


def mesh_of(kind):
    return jax.make_mesh((2, 2), ("d", "e"), axis_types=(kind,) * 2)


def placed(mesh, spec):
    args = data(4, 6, 8), data(8, seed=1), data(4, 6, 8, seed=2)
    specs = spec, P(), spec
    return args, [
        jax.device_put(a, NamedSharding(mesh, s))
        for a, s in zip(args, specs, strict=True)
    ]


SPECS = [P("d"), P(("d", "e")), P(None, "e"), P("d", "e")]


@pytest.mark.parametrize("spec", SPECS)
@kinds
def test_shards_stay_in_place(kind, spec):
    mesh = mesh_of(kind)
    args, sharded = placed(mesh, spec)
    grad = jax.grad(loss, (0, 1, 2))
    want = fused(*args), grad(*args)
    with jax.set_mesh(mesh):
        text = program(fused, *sharded)
        assert "all-" not in text and "permute" not in text
        assert f'"{NAME}"' in text
        text = program(grad, *sharded)
        # The gradient of the weight is summed; nothing else travels.
        assert "all-gather" not in text and "permute" not in text
        assert "all-reduce" in text
        got = jax.jit(fused)(*sharded), jax.jit(grad)(*sharded)
    assert_close(got, want, 5e-5)
    for x in (got[0], got[1][0], got[1][2]):
        assert x.sharding.is_equivalent_to(sharded[0].sharding, 3)
    assert got[1][1].sharding.is_fully_replicated


@kinds
def test_rows_of_a_matrix_stay_in_place(kind):
    # As many rows as columns: XLA must not take the weight for rows.
    mesh, x, w = mesh_of(kind), data(8, 8), data(8, seed=1)
    with jax.set_mesh(mesh):
        xs = jax.device_put(x, NamedSharding(mesh, P(("d", "e"))))
        ws = jax.device_put(w, NamedSharding(mesh, P()))
        assert "all-" not in program(rms_norm, xs, ws)
        got = jax.jit(rms_norm)(xs, ws)
    assert got.sharding.is_equivalent_to(xs.sharding, 2)
    assert_close(got, rms_norm(x, w))


@kinds
def test_a_batched_weight_on_a_mesh(kind):
    mesh = mesh_of(kind)
    (x, w, r), (xs, _, rs) = placed(mesh, P("d", "e"))
    w = jnp.stack([w * i for i in range(1, 5)])
    f = jax.vmap(jax.value_and_grad(loss, (0, 1, 2)))
    want = f(x, w, r)
    with jax.set_mesh(mesh):
        ws = jax.device_put(w, NamedSharding(mesh, P("d")))
        assert "all-gather" not in program(f, xs, ws, rs)
        assert_close(jax.jit(f)(xs, ws, rs), want, 5e-5)


def test_a_sharded_weight_is_gathered_or_refused():
    mesh = mesh_of(AxisType.Auto)
    (x, w, _), (xs, _, _) = placed(mesh, P("d"))
    ws = jax.device_put(w, NamedSharding(mesh, P("e")))
    assert_close(jax.jit(rms_norm)(xs, ws), rms_norm(x, w))
    mesh = mesh_of(AxisType.Explicit)
    with jax.set_mesh(mesh):
        ws = jax.device_put(w, NamedSharding(mesh, P("e")))
        with pytest.raises(ValueError) as caught:
            rms_norm(placed(mesh, P("d"))[1][0], ws)
    assert str(caught.value).startswith(
        f"{rms_norm_op.name}: operand weight: axis -1 is sharded over 'e', "
        "expected it"
    )


@pytest.mark.parametrize("check", [True, False])
def test_shard_map_runs_the_fused_handlers_on_each_shard(check):
    mesh = mesh_of(AxisType.Auto)
    args, _ = placed(mesh, P("d"))

    def mapped(x, w, r):
        return jax.shard_map(
            lambda *p: jax.lax.psum(loss(*p), ("d", "e")),
            mesh=mesh,
            in_specs=(P("d", "e"), P(), P("d", "e")),
            out_specs=P(),
            check_vma=check,
        )(x, w, r)

    grad = jax.value_and_grad(mapped, (0, 1, 2))
    assert targets(grad, *args)[f"{NAME}_weight_bwd"] == 1
    want = jax.value_and_grad(loss, (0, 1, 2))(*args)
    assert_close(jax.jit(grad)(*args), want, 5e-5)


# --- Export -------------------------------------------------------------------


def test_export_with_a_symbolic_batch_and_its_gradient():
    pytest.importorskip("flatbuffers", reason="jax.export serializes with it")
    (size,) = export.symbolic_shape("b")
    types = [
        jax.ShapeDtypeStruct(s, np.float32)
        for s in ((size, 8), (8,), (size, 8))
    ]
    checks = xla_ffi_kit.export_checks(rms_norm_op)
    exported = export.export(jax.jit(fused), disabled_checks=checks)(*types)
    again = export.deserialize(exported.serialize(vjp_order=1))
    for rows in (2, 5):
        args = data(rows, 8), data(8, seed=1), data(rows, 8, seed=2)
        assert_close(again.call(*args), fused(*args))
        got = jax.grad(lambda *p: jnp.sum(again.call(*p) ** 2), (0, 1, 2))
        assert_close(got(*args), jax.grad(loss, (0, 1, 2))(*args), 5e-5)
