"""rms_norm: its forms, and what calls which handler; ops_test has values."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import compiled, count, mesh_of, on, run_python
from jax import export
from jax.sharding import PartitionSpec as P

import xla_ffi_kit
from xla_ffi_kit import FfiOp, rms_norm
from xla_ffi_kit.ops.rms_norm import rms_norm_op, rms_norm_weight_bwd_op

jax.config.update("jax_enable_x64", True)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_variant_has_eps(count, in_place):
    ones = jnp.ones((2, 4), "float32")
    y = rms_norm(
        ones,
        ones[0] if count > 1 else None,
        residual=0 * ones if count > 2 else None,
        eps=3,
        in_place=in_place,
    )
    np.testing.assert_allclose(jax.tree.leaves(y)[0], 0.5, rtol=1e-6)


@pytest.mark.parametrize("eps", [np.float32(1e-2), np.float64(1e-3)])
def test_eps_of_a_raw_call_has_either_type(eps):
    x = jnp.arange(12.0).reshape(3, 4)
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    y = jax.ffi.ffi_call("xla_ffi_kit.rms_norm", out)(x, eps=eps)
    np.testing.assert_array_equal(y, rms_norm(x, eps=float(eps)))


# --- With a weight that rows share --------------------------------------------

KINDS = ["Auto", "Explicit"]
NAME = "xla_ffi_kit.rms_norm"  # of the handler


def data(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=shape), np.float32)


def assert_near(got, want, tolerance=2e-5):
    leaves = zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True)
    for a, b in leaves:
        scale = max(1, np.max(np.abs(b), initial=0))
        np.testing.assert_allclose(a, b, atol=tolerance * scale)


def fused(x, w, r):
    y, total = rms_norm(x, w, residual=r)
    return y * total


def loss(x, w, r):
    return jnp.sum(fused(x, w, r) ** 2)


def targets(function, *args):
    """How often a program calls each of the kit's handlers."""
    names = [
        part.split('"')[0]
        for part in compiled(function, *args).split('custom_call_target="')[1:]
    ]
    return {n: names.count(n) for n in names if n.startswith("xla_ffi_kit")}


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("which", [(), (0, 1)])
def test_complex_numbers_run_no_handler(which, in_place):
    x, r = (data(3, 5, seed=i) + 1j * data(3, 5, seed=i + 1) for i in (0, 2))
    w, r = (v if i in which else None for i, v in enumerate((r[0], r)))

    def norm(x):
        y = rms_norm(x, w, residual=r, in_place=in_place)
        return y[0] if r is not None else y

    def plain(x):
        h = x if r is None else x + r
        power = jnp.mean(jnp.real(h * jnp.conj(h)), -1, keepdims=True)
        y = h / jnp.sqrt(power + 1e-6)
        return y if w is None else y * w

    assert_near(norm(x), plain(x))
    assert_near(*(jax.vjp(f, x)[1](x) for f in (norm, plain)))
    slope = jax.jit(lambda x: jax.vjp(norm, x)[1](x))
    assert "custom_call" not in slope.lower(x).as_text()


# --- The fused handlers run ---------------------------------------------------


def test_forward_and_backward_are_one_call_each():
    x, w = data(4, 6, 8), data(8, seed=1)
    assert targets(rms_norm, x, w) == {NAME: 1}
    f = lambda x, w, r: rms_norm(x, w, residual=r)  # noqa: E731
    assert targets(f, x, w, x) == {NAME: 1}
    assert targets(lambda x, r: rms_norm(x, residual=r), x, x) == {NAME: 1}
    both = {NAME: 1, f"{NAME}_weight_bwd": 1}
    grad = jax.grad(loss, (0, 1, 2))
    assert targets(grad, x, w, x) == both
    # Under vmap too, with a gradient of the weight for each element.
    assert targets(jax.vmap(grad, (0, None, 0)), x, w, x) == both
    plain = jax.grad(lambda x, w: jnp.sum(rms_norm(x, w) ** 2), (0, 1))
    assert targets(plain, x, w) == both


def test_a_sum_that_nobody_reads_needs_no_cotangent():
    x, w = data(4, 8), data(8, seed=1)
    grad = jax.grad(lambda x: jnp.sum(rms_norm(x, w, residual=x)[0] ** 2))
    assert f"{NAME}_weight_bwd" in targets(grad, x)
    only_sum = jax.grad(lambda x: jnp.sum(rms_norm(x, w, residual=x)[1] ** 2))
    assert_near(only_sum(x), 8 * x)
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


def test_dead_derivatives_cost_nothing():
    # Only dw is asked for, so no handler computes dx.
    x = data(2, 3)
    assert f"{NAME}_bwd" not in targets(jax.grad(loss, 1), x, x[0], x)


def test_the_gradient_alone_does_not_run_the_forward():
    x = data(2, 3)
    for f, forward in (
        (lambda x: jnp.vdot(rms_norm(x), data(2, 3)), False),
        (lambda x: jnp.sum(rms_norm(x) ** 3), True),
    ):
        called = targets(jax.grad(f), x)
        assert called.pop(f"{NAME}_bwd") == 1
        assert called == ({NAME: 1} if forward else {})
        # Nothing of the reference.
        assert "rsqrt" not in compiled(jax.grad(f), x)


def test_linearize_runs_the_forward_once():
    def linearized(x):
        return jax.linearize(rms_norm, x)[1](x)

    for name in ("xla_ffi_kit.rms_norm", "xla_ffi_kit.rms_norm_bwd"):
        assert count(linearized, data(2, 3), what=name) == 1


# --- vmap ---------------------------------------------------------------------

# check_op_test has vmap over any axes, hypothesis_test nested ones, of
# derivatives and of rules that know no batch axes.


def test_a_weight_that_is_not_mapped_is_not_repeated():
    x, w = data(3, 5, 8), data(2, 8, seed=1)
    inner = jax.vmap(rms_norm, (None, 0))  # a batched weight
    f = jax.vmap(inner, (0, None))
    jaxpr = str(jax.make_jaxpr(f)(x, w))
    assert "f32[3,2,8]" not in jaxpr and "f32[2,3,8]" not in jaxpr
    want = jnp.stack([jnp.stack([rms_norm(a, b) for b in w]) for a in x])
    assert_near(f(x, w), want)


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
    assert_near(f(x, w), jax.vmap(rms_norm)(x, w))


# On meshes; mesh_test has other operations, and rows without a weight.


def placed(mesh, spec):
    args = data(4, 6, 8), data(8, seed=1), data(4, 6, 8, seed=2)
    specs = spec, P(), spec
    return args, [on(mesh, a, *s) for a, s in zip(args, specs, strict=True)]


SPECS = [P(None, "e"), P("d", "e")]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("kind", KINDS)
def test_shards_stay_in_place(kind, spec):
    mesh = mesh_of(kind)
    args, sharded = placed(mesh, spec)
    grad = jax.grad(loss, (0, 1, 2))
    want = fused(*args), grad(*args)
    with jax.set_mesh(mesh):
        text = compiled(fused, *sharded)
        assert "all-" not in text and "permute" not in text
        assert f'"{NAME}"' in text
        text = compiled(grad, *sharded)
        # The gradient of the weight is summed; nothing else travels.
        assert "all-gather" not in text and "permute" not in text
        assert "all-reduce" in text
        got = jax.jit(fused)(*sharded), jax.jit(grad)(*sharded)
    assert_near(got, want, 5e-5)
    for x in (got[0], got[1][0], got[1][2]):
        assert x.sharding.is_equivalent_to(sharded[0].sharding, 3)
    assert got[1][1].sharding.is_fully_replicated


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_matrix_stay_in_place(kind):
    # As many rows as columns: XLA must not take the weight for rows.
    mesh = mesh_of(kind)
    x, w = data(8, 8), data(8, seed=1)
    with jax.set_mesh(mesh):
        xs = on(mesh, x, ("d", "e"))
        ws = on(mesh, w)
        assert "all-" not in compiled(rms_norm, xs, ws)
        got = jax.jit(rms_norm)(xs, ws)
    assert got.sharding.is_equivalent_to(xs.sharding, 2)
    assert_near(got, rms_norm(x, w))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batched_weight_on_a_mesh(kind):
    mesh = mesh_of(kind)
    (x, w, r), (xs, _, rs) = placed(mesh, P("d", "e"))
    w = jnp.stack([w * i for i in range(1, 5)])
    f = jax.vmap(jax.value_and_grad(loss, (0, 1, 2)))
    want = f(x, w, r)
    with jax.set_mesh(mesh):
        ws = on(mesh, w, "d")
        assert "all-gather" not in compiled(f, xs, ws, rs)
        assert_near(jax.jit(f)(xs, ws, rs), want, 5e-5)


def test_a_sharded_weight_is_gathered_or_refused():
    mesh = mesh_of("Auto")
    (x, w, _), (xs, _, _) = placed(mesh, P("d"))
    ws = on(mesh, w, "e")
    assert_near(jax.jit(rms_norm)(xs, ws), rms_norm(x, w))
    mesh = mesh_of("Explicit")
    with jax.set_mesh(mesh):
        ws = on(mesh, w, "e")
        x = placed(mesh, P("d"))[1][0]
        with pytest.raises(ValueError, match="weight: axis -1 is sharded over"):
            rms_norm(x, ws)


@pytest.mark.parametrize("check", [True, False])
def test_shard_map_runs_the_fused_handlers_on_each_shard(check):
    mesh = mesh_of("Auto")
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
    assert_near(jax.jit(grad)(*args), want, 5e-5)


# --- The workspace on CUDA: one result more, which nobody sees ----------------

WEIGHT_BWD = "xla_ffi_kit.rms_norm_weight_bwd"


def lowered(function, *operands, platform="cuda"):
    traced = jax.jit(function).trace(*operands)
    return traced.lower(lowering_platforms=(platform,)).as_text()


@pytest.fixture
def on_gpu(monkeypatch):
    """The CUDA handlers are there, as far as lowering asks for them."""
    from xla_ffi_kit.library import handler_library, registration

    find = handler_library.find

    def found(libraries, platform, target):
        if platform == "cuda":
            return libraries[0]
        return find(libraries, platform, target)

    monkeypatch.setattr(handler_library, "find", found)
    monkeypatch.setattr(registration, "register_handler", lambda *_: None)


def types_of(rows, n, dtype=np.float32, lead=()):
    x = jax.ShapeDtypeStruct((*lead, rows, n), dtype)
    scale = jax.ShapeDtypeStruct((*lead, rows), np.float32)
    return x, x, scale, jax.ShapeDtypeStruct((*lead, n), dtype)


def workspaces(text):
    """The bytes of each call's last result."""
    calls = re.findall(rf"custom_call @{re.escape(WEIGHT_BWD)}\(.*", text)
    assert calls
    return [int(re.search(r"tensor<(\d+)xui8>", call)[1]) for call in calls]


@pytest.mark.parametrize(
    ("rows", "n", "slots"),
    [
        (1, 8, 1),
        (6, 8, 4),
        (1000, 64, 501),
        (4096, 64, 1024),
        (1 << 20, 64, 1 << 14),
        # 8 MiB, whatever the GPU.
        (4096, 8192, 256),
        (1024, 65536, 32),
    ],
)
def test_its_size_follows_from_shapes_alone(on_gpu, rows, n, slots):
    text = lowered(rms_norm_weight_bwd_op, *types_of(rows, n))
    assert workspaces(text) == [slots * n * 4]


def test_it_has_sums_of_each_weight_as_wide_as_the_scale(on_gpu):
    function = jax.vmap(rms_norm_weight_bwd_op)
    text = lowered(function, *types_of(6, 8, jnp.bfloat16, lead=(5,)))
    assert workspaces(text) == [5 * 4 * 8 * 4]


def test_nobody_sees_it(on_gpu):
    def loss(x, w):
        return xla_ffi_kit.rms_norm(x, w).sum()

    x = jax.ShapeDtypeStruct((6, 8), np.float32)
    w = jax.ShapeDtypeStruct((8,), np.float32)
    gradient = jax.jit(jax.grad(loss, (0, 1))).trace(x, w)
    assert [a.shape for a in gradient.jaxpr.out_avals] == [(6, 8), (8,)]
    text = lowered(jax.grad(loss, (0, 1)), x, w)
    assert len(workspaces(text)) == 1


def test_the_cpu_has_none():
    args = [np.ones(s.shape, s.dtype) for s in types_of(6, 8)]
    text = lowered(rms_norm_weight_bwd_op, *args, platform="cpu")
    assert WEIGHT_BWD in text and "xui8" not in text
    dx, dweight = rms_norm_weight_bwd_op(*args)
    assert dx.shape == (6, 8) and dweight.shape == (8,)


def test_export_with_rows_that_are_not_known(on_gpu):
    (rows,) = export.symbolic_shape("rows", constraints=["rows >= 1"])
    exported = export.export(
        jax.jit(rms_norm_weight_bwd_op),
        platforms=["cuda"],
        disabled_checks=[export.DisabledSafetyCheck.custom_call(WEIGHT_BWD)],
    )(*types_of(rows, 8))
    assert WEIGHT_BWD in exported.mlir_module()
    assert [a.shape for a in exported.out_avals] == [(rows, 8), (8,)]


# --- JAX's strict modes -------------------------------------------------------

_STRICT = """
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
from xla_ffi_kit import modular_add, relu, rms_norm, use_reference

def total(results):
    leaves = jax.tree.leaves(results)
    return sum(jnp.sum(jnp.sin(jnp.real(y).astype(np.float32))) for y in leaves)

def program(*operands):
    def loss(x, w, h):
        return (
            total(rms_norm(x))
            + total(rms_norm(x, w))
            + total(rms_norm(x, w, residual=h))
            + total(rms_norm(x, residual=h))
            + total(relu(x))
            + total(modular_add(h[..., :2], x))
        )
    def second(*operands):
        return total(jax.grad(loss, (0, 1, 2))(*operands))
    mapped = jax.vmap(jax.grad(loss, (0, 1, 2)))(*(x[None] for x in operands))
    pushed = jax.jvp(loss, operands, operands)
    return mapped, pushed, jax.grad(second, (0, 1, 2))(*operands)

x = jnp.asarray(np.arange(1, 13).reshape(3, 4) / 10, "bfloat16")
for y in jax.tree.leaves(jax.jit(program)(x, x[0], x)):
    assert np.isfinite(np.asarray(y, np.float32)).all()
z = x.astype(np.complex64)
jax.vjp(lambda *z: rms_norm(*z[:2], residual=z[2]), z, z[0], z)[1]((z, z))
"""


def test_no_operation_promotes_ranks_or_dtypes():
    """In a process of its own, as what is traced before would hide it."""
    done = run_python(_STRICT)
    assert done.returncode == 0, done.stderr
