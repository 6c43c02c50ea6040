"""On a mesh, an operation is what it is on one device.

Aliases, side effects, operands that broadcast, batches that the devices do not
divide: XLA's own partitioner of batches loses or breaks each of them.
check_op_test has what every operation does on a mesh of one axis: shards stay
in place, forwards and backwards, in vmap and shard_map too.
"""

import ctypes

import inline_data  # noqa: F401  a cache of the test's own
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import (
    COLLECTIVES,
    collectives,
    mesh_of,
    on,
    operation,
    raises,
)
from jax import export
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import xla_ffi_kit
from xla_ffi_kit import Advanced, FfiOp, inline, modular_add, rms_norm

KINDS = ["Auto", "Explicit"]
LINE = ((4,), ("d",))  # a mesh of one axis

# --- Operations that XLA's own partitioner of batches would make wrong --------


@inline(
    """
    void add_to(kit::In<float> x, kit::In<float> y, kit::Out<float> z) {
      for (int64_t i = 0; i < z.size(); ++i) z[i] += y[i];  // z is x
    }""",
    kernel_axes=1,
    aliases={"x": 0},
)
def add_to(x, y):
    return x + y


# In front of the code of a function that counts its calls: see calls_of.
COUNTS = """
    #include <atomic>
    static std::atomic<long> calls{0};
    extern "C" __attribute__((visibility("default"))) long XlaFfiKit_Calls() {
      return calls;
    }
"""


def calls_of(op):
    """How often an operation's function has been called in this process."""
    return ctypes.CDLL(op.spec.libraries[0].path).XlaFfiKit_Calls()


@inline(
    COUNTS
    + """
    template <typename T>
    void note(kit::In<T> x, kit::Out<T> y) {
      ++calls;
      for (int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
    }""",
    dtypes="f32 f64",
    kernel_axes=1,
    advanced=Advanced(has_side_effect=True),
)
def note(x):
    return 2 * x


@inline(
    """
    void outer(kit::In<float> x, kit::In<float> y, kit::Out<float> z) {
      const int64_t n = z.dim(-1), rows = z.size() / n;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < n; ++i) {
          z[r * n + i] = 2 * x[x.size() == n ? i : r * n + i] +
                         y[y.size() == n ? i : r * n + i];
        }
      }
    }""",
    kernel_axes=1,
    advanced=Advanced(vmap_method="expand_dims"),
)
def outer(x, y):
    return 2 * x + y


@inline(
    """
    void cumulate(kit::In<float> x, kit::Out<float> y) {
      float sum = 0;
      for (int64_t i = 0; i < x.size(); ++i) y[i] = sum += x[i];
    }""",
    kernel_axes=1,
    advanced=Advanced(vmap_method="sequential"),
)
def cumulate(x):
    return jnp.cumsum(x, -1)


def by_rows(x, y):
    """A handler that is a function, which takes any batch axes of x."""
    return outer(x, jnp.broadcast_to(y, x.shape))


any_batch = FfiOp(
    "test.any_batch",
    lambda x, y: 2 * x + y,
    kernel_axes=1,
    handlers={"cpu": by_rows},
    shared="y",
)


@inline(
    """
    void scale_and_sum(kit::In<float> x, kit::In<float> w, kit::Out<float> y,
                       kit::Out<float> total) {
      const int64_t n = w.size();
      for (int64_t i = 0; i < n; ++i) total[i] = 0;
      for (int64_t i = 0; i < x.size(); ++i) {
        total[i % n] += y[i] = x[i] * w[i % n];
      }
    }""",
    axes="(n),(n)->(n),(n)",
    shared="w",
    advanced=Advanced(shared_results=1),
)
def scale_and_sum(x, w):
    y = x * w
    return y, jnp.sum(y, tuple(range(x.ndim - 1)))


def sums(x, w):
    """Of all rows, and of each."""
    whole, rows = scale_and_sum(x, w), jax.vmap(scale_and_sum, (0, None))(x, w)
    return whole, rows, scale_and_sum(jnp.sin(x)[:, None], w)[1]


# What XLA pads with is no row of the operand: it would end the process.
@inline(
    """
    void quotient(kit::In<int32_t> x, kit::In<int32_t> y,
                  kit::Out<int32_t> z) {
      for (int64_t i = 0; i < z.size(); ++i) z[i] = x[i] / y[i];
    }""",
    kernel_axes=0,
)
def quotient(x, y):
    return x // y


@inline(
    """
    const char* of_rows(kit::In<float> x, int64_t rows, kit::Out<float> y) {
      if (x.size() != rows * x.dim(-1)) return "not this many rows";
      for (int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
      return nullptr;
    }""",
    kernel_axes=1,
    attributes={"rows": np.int64},
)
def of_rows(x, *, rows):
    return 2 * x


counted_rows = FfiOp(
    "test.of_rows",
    lambda x: 2 * x,
    kernel_axes=1,
    handlers=of_rows.spec.handlers,
    libraries=of_rows.spec.libraries,
    advanced=Advanced(
        shape_attributes=lambda x: {"rows": int(np.prod(x.shape[:-1]))}
    ),
)


@inline(
    """
    void doubled(kit::In<float> x, kit::Out<float> y, kit::Out<uint8_t> w) {
      w[w.size() - 1] = 2;
      for (int64_t i = 0; i < x.size(); ++i) y[i] = w[w.size() - 1] * x[i];
    }""",
    kernel_axes=1,
)
def doubled(x):
    return 2 * x, jnp.zeros(x.shape, np.uint8)


with_workspace = FfiOp(
    "test.workspace",
    lambda x: 2 * x,
    kernel_axes=1,
    handlers=doubled.spec.handlers,
    libraries=doubled.spec.libraries,
    advanced=Advanced(workspace={"cpu": lambda x: 8}, has_side_effect=True),
)


def in_loop(op, x, *operands):
    """Calls an operation three times in a scan."""

    def step(carry, _):
        return op(carry, *operands), None

    return jax.lax.scan(step, x, None, 3)[0]


def everywhere(op):
    """A call, calls in a loop and a gradient, as one program."""

    def program(x, *operands):
        def loss(x):
            return jnp.sum(jnp.sin(op(x, *operands)))

        return op(x, *operands), in_loop(op, x, *operands), jax.grad(loss)(x)

    return program


def uneven(x):
    """Seventeen rows of sixteen: XLA shards them, and pads."""
    return jnp.concatenate([x, x[:1]])


def uneven_program(x):
    rows = uneven(x)
    return quotient(rows, rows), in_loop(quotient, rows, uneven(x // x))


RNG = np.random.default_rng(0)
X, Y = (RNG.normal(size=(16, 4)).astype(np.float32) for _ in range(2))
ROW = X[0]
INTEGERS = np.arange(1, 17, dtype=np.int32)

# A program and its operands; those of sixteen rows are sharded.
PROGRAMS = {
    "alias": (everywhere(add_to), X, Y),
    "alias under vmap": (jax.vmap(add_to), X, Y),
    "side effect": (everywhere(note), X),
    "expand_dims": (everywhere(jax.vmap(outer, (0, None))), X, ROW),
    "sequential": (everywhere(jax.vmap(cumulate)), X),
    "function": (everywhere(any_batch), X, ROW),
    "function of each row": (jax.vmap(any_batch), X[:, None], X),
    "shared": (everywhere(rms_norm), X, ROW),
    "shared result": (jax.grad(lambda w, x: rms_norm(x, w).sum()), ROW, X),
    "sums": (sums, X, ROW),
    "shape attributes": (everywhere(counted_rows), X),
    "workspace": (everywhere(with_workspace), X),
    "uneven": (uneven_program, INTEGERS),
}


def placed(mesh, operands, *axes):
    """Those of sixteen rows are sharded."""
    row = [axes or mesh.axis_names]
    return [on(mesh, x, *row if len(x) == 16 else ()) for x in operands]


def check(got, program, operands, rtol=2e-5, atol=1e-6):
    want = jax.jit(program)(*operands)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


# --- Values, and what travels -------------------------------------------------

IN_PLACE = ["alias", "side effect", "expand_dims", "sequential", "function"]


@pytest.mark.parametrize("kind", [*KINDS, "none around"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_one_device(kind, name):
    """And shards stay where they are."""
    program, *operands = PROGRAMS[name]
    if kind == "none around":  # and one of its axes divides the rows
        args = placed(mesh_of("Auto"), operands, "e")
        return check(jax.jit(program)(*args), program, operands)
    if name == "uneven" and kind == "Explicit":
        pytest.skip("Explicit meshes refuse such a concatenation")
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):
        args = placed(mesh, operands)
        compiled = jax.jit(program).lower(*args).compile()
    check(compiled(*args), program, operands)
    if name in IN_PLACE:
        assert not [c for c in COLLECTIVES if c in compiled.as_text()]


def exported(program, *types):
    checks = xla_ffi_kit.export_checks()
    export_of = export.export(jax.jit(program), disabled_checks=checks)
    return jax.jit(export_of(*types).call)


ON_EXPLICIT = ["alias", "side effect", "shared result"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [("Auto", name) for name in PROGRAMS]
    + [("Explicit", name) for name in ON_EXPLICIT],
)
def test_exported_programs(kind, name):
    program, *operands = PROGRAMS[name]
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):
        args = placed(mesh, operands)
        got = exported(program, *args)(*args)
    check(got, program, operands)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("program", "operands"),
    [(add_to, (X, Y)), (jax.vmap(outer, (0, None)), (X, ROW))],
)
def test_exported_programs_of_any_number_of_rows(kind, program, operands):
    (n,) = export.symbolic_shape("n")
    args = placed(mesh_of(kind), operands, "d")
    shapes = [(4 * n, *x.shape[1:]) if len(x) == 16 else x.shape for x in args]
    types = [
        jax.ShapeDtypeStruct(shape, x.dtype, sharding=x.sharding)
        for shape, x in zip(shapes, args, strict=True)
    ]
    check(exported(program, *types)(*args), program, operands)


@pytest.mark.parametrize(
    ("name", "names"),
    [(name, {"d"}) for name in PROGRAMS]
    + [(name, {"d", "e"}) for name in ON_EXPLICIT],
)
def test_shard_map_over_some_axes_and_all(name, names):
    program, *operands = PROGRAMS[name]
    mesh = mesh_of("Auto")
    rows = tuple(P("d") if len(x) == 16 else P() for x in operands)

    def both(*parts):
        """Each part is one device's, and by itself divided over the rest."""
        return jax.tree.map(lambda y: y[None], program(*parts))

    mapped = jax.shard_map(
        both,
        mesh=mesh,
        in_specs=rows,
        out_specs=P("d"),
        axis_names=names,
        check_vma=False,
    )
    got = jax.jit(mapped)(*placed(mesh, operands))
    for half in range(2):
        part = [
            x[8 * half : 8 * half + 8] if len(x) == 16 else x for x in operands
        ]
        check(jax.tree.map(lambda y, i=half: y[i], got), program, part)


# --- Calls, each with its own rows --------------------------------------------


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
    advanced=Advanced(has_side_effect=True),
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
        advanced=Advanced(shape_attributes=lambda x: {"rows": 16}),
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


@pytest.mark.parametrize("kind", [*KINDS, "vmap"])
def test_nothing_shared_is_made_for_every_row(kind):
    """Of 24 kB of operands, that would be 32 MiB."""
    slopes, right = slopes_of(table), slopes_of(like_table)
    operands = arguments = ROWS, WEIGHT
    mesh = mesh_of("Auto" if kind == "vmap" else kind)
    if kind == "vmap":
        slopes, right = jax.vmap(slopes), jax.vmap(right)
        weights = np.stack([WEIGHT, WEIGHT[::-1]])
        operands = arguments = ROWS.reshape(2, -1, 1), weights
    else:
        arguments = on(mesh, ROWS, "d"), on(mesh, WEIGHT)
    with jax.set_mesh(mesh):
        program = jax.jit(slopes).lower(*arguments).compile()
        got = program(*arguments)
    assert program.memory_analysis().temp_size_in_bytes < 1 << 20
    assert "all-gather" not in program.as_text()
    check(got, right, operands, rtol=1e-3, atol=1e-3)


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


@pytest.mark.parametrize("kind", [*KINDS, "shard_map"])
@pytest.mark.parametrize("name", CALLS)
def test_every_device_makes_each_call(kind, name):
    function, times = CALLS[name]
    mesh = mesh_of("Auto" if kind == "shard_map" else kind)
    if kind == "shard_map":
        mapped = jax.shard_map(
            lambda x: function(x)[None],
            mesh=mesh,
            in_specs=P("d"),
            out_specs=P("d"),
            axis_names={"d"},
            check_vma=False,
        )
        assert count(jax.jit(mapped), *placed(mesh, [X])) == 4 * times
        return
    with jax.set_mesh(mesh):
        assert count(jax.jit(function), *placed(mesh, [X])) == 4 * times


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


# --- The kit's own operations -------------------------------------------------


def data(shape=(8, 6, 16)):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape), np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_eager_call_keeps_the_sharding(kind):
    x = on(mesh_of(kind, *LINE), data(), "d")
    assert rms_norm(x).sharding.is_equivalent_to(x.sharding, x.ndim)
    if kind == "Explicit":
        spec = jax.eval_shape(rms_norm, x).sharding.spec
        assert tuple(spec) == ("d", None, None)


def relu_of_rows(axes="(n)->(n)", **options):
    return FfiOp(
        "xla_ffi_kit.relu",
        jax.nn.relu,
        axes=axes,
        libraries=xla_ffi_kit.ops.LIBRARIES,
        advanced=Advanced(**options),
    )


@pytest.mark.parametrize(
    ("way", "axes"),
    [(None, ""), ("gather", "(n)->(n)")]
    + [("restore", "(n)->(n)"), ("restore", "(_)->(_)")],
)
def test_auto_mesh_gathers_a_sharded_kernel_axis(way, axes):
    """And shards that of results again if it is to be restored."""
    op = rms_norm
    if way:
        op = relu_of_rows(axes, sharded_kernel_axes=way)
    x = data()[:, :4]  # the devices divide both batch axes
    sharding = NamedSharding(mesh_of("Auto", *LINE), P(None, None, "d"))
    sharded = jax.device_put(x, sharding)
    assert collectives(op, sharded) == ["all-gather"]
    got = jax.jit(op)(sharded)
    is_restored = got.sharding.is_equivalent_to(sharding, got.ndim)
    assert is_restored == (way == "restore" and "n" in axes)
    np.testing.assert_allclose(got, op(x), rtol=1e-6)


def test_explicit_mesh_refuses_a_sharded_kernel_axis():
    mesh = mesh_of("Explicit", *LINE)
    with jax.set_mesh(mesh):
        x = on(mesh, data(), None, None, "d")
        with raises(
            ValueError,
            "xla_ffi_kit.rms_norm: operand x: axis -1 is sharded "
            "over 'd', expected it not to be: kernel axes must not be sharded; "
            "reshard it first with jax.sharding.reshard, or define the "
            "operation with advanced=Advanced(sharded_kernel_axes='gather')",
        ):
            rms_norm(x)


def test_explicit_mesh_gathers_if_the_spec_says_so():
    op = relu_of_rows(sharded_kernel_axes="gather")
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
    mesh = mesh_of("Explicit", *LINE)
    with jax.set_mesh(mesh):
        whole, sharded = on(mesh, data()), on(mesh, data(), "d")
        got = jax.jit(jax.grad(lambda x, y: jnp.sum(op(x, y))))(whole, sharded)
    assert got.sharding.is_fully_replicated
    np.testing.assert_array_equal(got, data())


def test_attributes_of_a_rank_do_not_keep_xla_from_splitting_a_call():
    x = jax.ShapeDtypeStruct(
        (8, 16),
        np.float32,
        sharding=NamedSharding(mesh_of("Auto", *LINE), P("d")),
    )
    for attributes, splits in (
        (lambda x: {"axis": len(x.shape) - 1, "n": x.shape[-1]}, True),
        (lambda x: {"rows": x.shape[0]}, False),
        (lambda x: {"rows": x.size}, False),
        (lambda x: {"is_row": int(x.shape[0] == 1)}, False),
        (lambda x: {"some": int(bool(x.shape[0]))}, False),
        (lambda x: {"text": str(x.shape)}, False),
    ):
        text = (
            jax.jit(relu_of_rows(shape_attributes=attributes))
            .lower(x)
            .as_text()
        )
        assert ("num_batch_dims" in text) == splits
