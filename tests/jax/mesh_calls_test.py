"""On a mesh, each device makes its part of each call, with its own rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from mesh_data import (
    COUNTS,
    X,
    Y,
    calls_of,
    check,
    counted_rows,
    in_loop,
    mesh_of,
    note,
    of_rows,
    placed,
)

import xla_ffi_kit
from xla_ffi_kit import FfiOp, inline


@inline(
    """
    void weigh(kit::In<float> x, kit::In<float> y, kit::Out<float> z) {
      const int64_t rows = z.size(), n = x.dim(-1);
      for (int64_t r = 0; r < rows; ++r) {
        z[r] = 0;
        for (int64_t i = 0; i < n; ++i) {
          z[r] += (i + 1) * x[r * n + i] - y[r * n + i];
        }
      }
    }""",
    kernel_axes=1,
    advanced=xla_ffi_kit.Advanced(has_side_effect=True),
)
def weigh(x, y):
    return jnp.sum(jnp.arange(1, x.shape[-1] + 1) * x - y, -1)


@pytest.mark.parametrize(
    ("kinds", "first", "second"),
    [
        ("AA", P(None, "d"), P(None, "d")),  # of their kernel axis
        ("AA", P("d", "e"), P("e", "d")),
        ("AA", P(("d", "e")), P(("e", "d"))),
        ("AE", P("d"), P("e")),  # each device has other rows of the second
        ("EA", P(), P("d")),
    ],
)
def test_operands_that_are_split_differently(kinds, first, second):
    kinds = [AxisType.Auto if k == "A" else AxisType.Explicit for k in kinds]
    order = [jax.devices()[i] for i in (3, 1, 0, 2)]
    mesh = jax.make_mesh((2, 2), ("d", "e"), tuple(kinds), devices=order)
    x = jax.device_put(X, NamedSharding(mesh, first))
    y = jax.device_put(Y, NamedSharding(mesh, second))
    check(jax.jit(weigh)(x, y), weigh, (X, Y))


def test_of_two_batch_axes_the_one_that_is_divided_stays_split():
    mesh = mesh_of("Auto")

    def program(x):
        x = jnp.concatenate([x, x[:, :1]], 1)  # of sizes 4 and 5
        x = jax.lax.with_sharding_constraint(
            x, NamedSharding(mesh, P("d", "e"))
        )
        return note(x)

    x = X.reshape(4, 4, 4)
    check(jax.jit(program)(x), program, (x,))


def test_two_functions_that_agree_on_the_whole():
    sixteen = FfiOp(
        "test.of_rows",
        lambda x: 2 * x,
        kernel_axes=1,
        handlers=of_rows.spec.handlers,
        libraries=of_rows.spec.libraries,
        advanced=xla_ffi_kit.Advanced(shape_attributes=lambda x: {"rows": 16}),
    )
    (x,) = placed(mesh_of("Auto"), [X])
    right, wrong = (
        jax.jit(lambda x, op=op: op(x)).lower(x)
        for op in (counted_rows, sixteen)
    )
    np.testing.assert_array_equal(right.compile()(x), 2 * X)
    with pytest.raises(Exception, match="not this many rows"):
        jax.block_until_ready(wrong.compile()(x))


# --- Shared operands ----------------------------------------------------------


@xla_ffi_kit.rows(
    """
    A sum = 0;
    for (int64_t i = 0; i < w.size(); ++i) sum += w[i] * w[i];
    out[0] = sum * x[0];""",
    axes="(n),(k)->()",
    dtypes="f32",
    shared="w",
    flags=["-O1"],
    lanes=False,
    derivatives="kernel",
    has_reference=False,
)
def table(x, w):
    return jax.ShapeDtypeStruct((), x.dtype)


def like_table(x, w):
    return jnp.sum(w * w) * x[..., 0]


WEIGHT = np.random.default_rng(0).normal(size=2048).astype(np.float32) / 45
ROWS = np.random.default_rng(1).normal(size=(4096, 1)).astype(np.float32)


def slopes_of(f):
    """The gradient towards both, and a tangent."""

    def slopes(x, w):
        loss = lambda x, w: jnp.sum(jnp.sin(f(x, w)))  # noqa: E731
        return (
            jax.grad(loss, (0, 1))(x, w),
            jax.jvp(lambda w: f(x, w), (w,), (2 * w,))[1],
        )

    return slopes


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_nothing_shared_is_made_for_every_row(kind):
    """Of 24 kB of operands, that would be 32 MiB."""
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):
        x = jax.device_put(ROWS, NamedSharding(mesh, P("d")))
        w = jax.device_put(WEIGHT, NamedSharding(mesh, P()))
        program = jax.jit(slopes_of(table)).lower(x, w).compile()
        got = program(x, w)
    assert program.memory_analysis().temp_size_in_bytes < 1 << 20
    assert "all-gather" not in program.as_text()
    check(got, slopes_of(like_table), (ROWS, WEIGHT), rtol=1e-3, atol=1e-3)


def test_nor_under_vmap_over_what_is_shared():
    operands = ROWS.reshape(2, -1, 1), np.stack([WEIGHT, WEIGHT[::-1]])
    f = jax.vmap(slopes_of(table))
    program = jax.jit(f).lower(*operands).compile()
    assert program.memory_analysis().temp_size_in_bytes < 1 << 20
    want = jax.vmap(slopes_of(like_table))
    check(program(*operands), want, operands, rtol=1e-3, atol=1e-3)


# --- Side effects -------------------------------------------------------------


def unused(x):
    note(x)
    return jnp.sin(x)


CALLS = {
    "unused": (unused, 1),
    "twice": (lambda x: note(x) + note(x), 2),
    "in a scan": (lambda x: in_loop(unused, x), 3),
    "in a scan under grad": (
        jax.grad(lambda x: jnp.sum(in_loop(unused, x))),
        3,
    ),
    "without batch axes": (lambda x: unused(x.sum(0)), 1),
}


def count(function, *args, op=note):
    before = calls_of(op)
    jax.block_until_ready(function(*args))
    return calls_of(op) - before


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
@pytest.mark.parametrize("name", CALLS)
def test_every_device_makes_each_call(kind, name):
    function, times = CALLS[name]
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):
        assert count(jax.jit(function), *placed(mesh, [X])) == 4 * times


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("names", [{"d"}, {"d", "e"}])
def test_and_in_shard_map(name, names):
    function, times = CALLS[name]
    mesh = mesh_of("Auto")
    mapped = jax.shard_map(
        lambda x: function(x)[None],
        mesh=mesh,
        in_specs=P("d"),
        out_specs=P("d"),
        axis_names=names,
        check_vma=False,
    )
    assert count(jax.jit(mapped), *placed(mesh, [X])) == 4 * times


def test_what_is_compiled_elsewhere_is_what_was_lowered():
    wide = X.astype(np.float64)
    with jax.enable_x64(True):
        x = jax.device_put(wide, NamedSharding(mesh_of("Auto"), P("d")))
        lowered = jax.jit(note).lower(x)
    with xla_ffi_kit.use_reference():
        compiled = lowered.compile()
    assert count(compiled, x) == 4
    with jax.enable_x64(True):
        np.testing.assert_array_equal(compiled(x), 2 * wide)


@inline(
    COUNTS
    + """
    void scaled(kit::In<float> x, kit::In<float> w, kit::Out<float> y) {
      ++calls;
      for (int64_t i = 0; i < x.size(); ++i) y[i] = w[0] * x[i];
    }""",
    axes="(n),()->(n)",
    shared="w",
    advanced=xla_ffi_kit.Advanced(has_side_effect=True),
)
def scaled(x, w):
    return w * x


def test_a_side_effect_with_a_shared_operand_of_each_row():
    mapped = jax.jit(jax.vmap(scaled))
    assert count(mapped, X, X[:, 0], op=scaled) == 16
    np.testing.assert_array_equal(mapped(X, X[:, 0]), X * X[:, :1])
    assert count(scaled, X, X[:, 0], op=scaled) == 16


def test_any_number_of_rows_with_a_side_effect_is_refused():
    mesh = mesh_of("Auto")
    (n,) = export.symbolic_shape("n")
    rows = jax.ShapeDtypeStruct(
        (4 * n, 4), np.float32, sharding=NamedSharding(mesh, P("d"))
    )
    with pytest.raises(
        NotImplementedError, match="expected known sizes, as XLA"
    ):
        export.export(
            jax.jit(note), disabled_checks=xla_ffi_kit.export_checks()
        )(rows)
