"""On a mesh, an operation is what it is on one device.

Aliases, side effects, operands that broadcast, batches that the devices do not
divide: XLA's own partitioner of batches loses or breaks each of them.
"""

import ctypes
import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=8"
)


import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import xla_ffi_kit
from xla_ffi_kit import FfiOp, inline, rms_norm

COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "permute")


@inline(
    """
    void add_to(kit::In<float> x, kit::In<float> y, kit::Out<float> z) {
      for (int64_t i = 0; i < z.size(); ++i) z[i] += y[i];  // z is x
    }""",
    kernel_axes=1,
    input_output_aliases={0: 0},
)
def add_to(x, y):
    return x + y


@inline(
    """
    #include <atomic>
    static std::atomic<long> calls{0};
    extern "C" __attribute__((visibility("default"))) long XlaFfiKit_Calls() {
      return calls;
    }
    void note(kit::In<float> x, kit::Out<float> y) {
      ++calls;
      for (int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
    }""",
    kernel_axes=1,
    has_side_effect=True,
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
    vmap_method="expand_dims",
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
    vmap_method="sequential",
)
def cumulate(x):
    return jnp.cumsum(x, -1)


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
    handlers=of_rows.handlers,
    libraries=of_rows.libraries,
    shape_attributes=lambda x: {"rows": int(np.prod(x.shape[:-1]))},
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
    handlers=doubled.handlers,
    libraries=doubled.libraries,
    workspace={"cpu": lambda x: 8},
    has_side_effect=True,
)


def test_two_functions_that_agree_on_the_whole():
    sixteen = FfiOp(
        "test.of_rows",
        lambda x: 2 * x,
        kernel_axes=1,
        handlers=of_rows.handlers,
        libraries=of_rows.libraries,
        shape_attributes=lambda x: {"rows": 16},
    )
    (x,) = placed(mesh_of("Auto"), [X])
    right, wrong = (
        jax.jit(lambda x, op=op: op(x)).lower(x)
        for op in (counted_rows, sixteen)
    )
    np.testing.assert_array_equal(right.compile()(x), 2 * X)
    with pytest.raises(Exception, match="not this many rows"):
        jax.block_until_ready(wrong.compile()(x))


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
    "shared": (everywhere(rms_norm), X, ROW),
    "shared result": (jax.grad(lambda w, x: rms_norm(x, w).sum()), ROW, X),
    "shape attributes": (everywhere(counted_rows), X),
    "workspace": (everywhere(with_workspace), X),
    "uneven": (uneven_program, INTEGERS),
}
# Explicit meshes refuse such a concatenation, and a loop over sharded rows.
ON_EXPLICIT = [n for n in PROGRAMS if n not in ("uneven", "sequential")]
KINDS = [("Auto", name) for name in PROGRAMS]
KINDS += [("Explicit", name) for name in ON_EXPLICIT]


def mesh_of(kind, devices=4):
    """Of two axes, but with two devices."""
    shape, names = ((2, devices // 2), ("d", "e"))
    if devices == 2:
        shape, names = (2,), ("d",)
    kinds = (AxisType[kind],) * len(names)
    return jax.make_mesh(shape, names, kinds, devices=jax.devices()[:devices])


def placed(mesh, operands, axes=None):
    rows = P(axes or mesh.axis_names)
    return [
        jax.device_put(x, NamedSharding(mesh, rows if len(x) == 16 else P()))
        for x in operands
    ]


def check(got, program, operands):
    want = jax.jit(program)(*operands)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    "devices",
    [
        pytest.param(2, marks=pytest.mark.release),
        4,
        pytest.param(8, marks=pytest.mark.release),
    ],
)
@pytest.mark.parametrize(("kind", "name"), KINDS)
def test_values_are_those_of_one_device(kind, name, devices):
    program, *operands = PROGRAMS[name]
    mesh = mesh_of(kind, devices)
    with jax.set_mesh(mesh):
        got = jax.jit(program)(*placed(mesh, operands))
    check(got, program, operands)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_axis_of_the_mesh_and_no_mesh_around(name):
    program, *operands = PROGRAMS[name]
    got = jax.jit(program)(*placed(mesh_of("Auto"), operands, "e"))
    check(got, program, operands)


@pytest.mark.parametrize(("kind", "name"), KINDS)
def test_exported_programs(kind, name):
    program, *operands = PROGRAMS[name]
    mesh = mesh_of(kind)
    context = contextlib.nullcontext()
    if kind == "Explicit":
        context = jax.set_mesh(mesh)
    with context:
        args = placed(mesh, operands)
        exported = export.export(
            jax.jit(program), disabled_checks=xla_ffi_kit.export_checks()
        )(*args)
        got = jax.jit(exported.call)(*args)
    check(got, program, operands)


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
@pytest.mark.parametrize(
    ("program", "operands"),
    [(add_to, (X, Y)), (jax.vmap(outer, (0, None)), (X, ROW))],
)
def test_exported_programs_of_any_number_of_rows(kind, program, operands):
    mesh = mesh_of(kind)
    (n,) = export.symbolic_shape("n")
    args = placed(mesh, operands, "d")
    types = [
        jax.ShapeDtypeStruct(
            (4 * n, *x.shape[1:]) if len(x) == 16 else x.shape,
            x.dtype,
            sharding=x.sharding,
        )
        for x in args
    ]
    exported = export.export(
        jax.jit(program), disabled_checks=xla_ffi_kit.export_checks()
    )(*types)
    got = jax.jit(exported.call)(*args)
    check(got, program, operands)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("names", [{"d"}, {"d", "e"}])
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


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
@pytest.mark.parametrize("name", ["alias", "side effect", "expand_dims"])
def test_shards_stay_in_place(kind, name):
    program, *operands = PROGRAMS[name]
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):
        args = placed(mesh, operands)
        text = jax.jit(program).lower(*args).compile().as_text()
    assert not [word for word in COLLECTIVES if word in text]


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
    has_side_effect=True,
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


# --- Side effects -------------------------------------------------------------

calls = ctypes.CDLL(note.libraries[0].path).XlaFfiKit_Calls


@inline(
    """
    #include <atomic>
    static std::atomic<long> calls{0};
    extern "C" __attribute__((visibility("default"))) long XlaFfiKit_Calls() {
      return calls;
    }
    void note_doubles(kit::In<double> x, kit::Out<double> y) {
      ++calls;
      for (int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
    }""",
    kernel_axes=1,
    has_side_effect=True,
)
def note_doubles(x):
    return 2 * x


double_calls = ctypes.CDLL(note_doubles.libraries[0].path).XlaFfiKit_Calls


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


def count(function, *args):
    before = calls()
    jax.block_until_ready(jax.jit(function)(*args))
    return calls() - before


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
@pytest.mark.parametrize("name", CALLS)
def test_every_device_makes_each_call(kind, name):
    function, times = CALLS[name]
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):
        assert count(function, *placed(mesh, [X])) == 4 * times


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
    assert count(mapped, *placed(mesh, [X])) == 4 * times


def test_what_is_compiled_elsewhere_is_what_was_lowered():
    with jax.enable_x64(True):
        x = jax.device_put(
            X.astype(np.float64), NamedSharding(mesh_of("Auto"), P("d"))
        )
        lowered = jax.jit(note_doubles).lower(x)
    with xla_ffi_kit.use_reference():
        compiled = lowered.compile()
    before = double_calls()
    got = compiled(x)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(got, 2 * X.astype(np.float64))
    assert double_calls() - before == 4


@inline(
    """
    #include <atomic>
    static std::atomic<long> calls{0};
    extern "C" __attribute__((visibility("default"))) long XlaFfiKit_Calls() {
      return calls;
    }
    void scaled(kit::In<float> x, kit::In<float> w, kit::Out<float> y) {
      ++calls;
      for (int64_t i = 0; i < x.size(); ++i) y[i] = w[0] * x[i];
    }""",
    kernel_axes=(1, 0),
    shared=(1,),
    has_side_effect=True,
)
def scaled(x, w):
    return w * x


def test_a_side_effect_with_a_shared_operand_of_each_row():
    scaled_calls = ctypes.CDLL(scaled.libraries[0].path).XlaFfiKit_Calls
    before = scaled_calls()
    got = jax.block_until_ready(jax.jit(jax.vmap(scaled))(X, X[:, 0]))
    assert scaled_calls() - before == 16
    np.testing.assert_array_equal(got, X * X[:, :1])
    with pytest.raises(NotImplementedError, match="with jax.vmap, or declare"):
        scaled(X, X[:, 0])
