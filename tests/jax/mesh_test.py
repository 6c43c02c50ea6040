"""On a mesh, an operation is what it is on one device.

Aliases, side effects, operands that broadcast, batches that the devices do not
divide: XLA's own partitioner of batches loses or breaks each of them.
"""

import jax
import pytest
from jax import export
from jax.sharding import PartitionSpec as P
from mesh_data import (
    PROGRAMS,
    ROW,
    X,
    Y,
    add_to,
    check,
    mesh_of,
    outer,
    placed,
)

import xla_ffi_kit

COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "permute")


# Explicit meshes refuse such a concatenation.
ON_EXPLICIT = [n for n in PROGRAMS if n != "uneven"]
KINDS = [("Auto", name) for name in PROGRAMS]
KINDS += [("Explicit", name) for name in ON_EXPLICIT]


@pytest.mark.parametrize(("kind", "name"), KINDS)
def test_values_are_those_of_one_device(kind, name):
    program, *operands = PROGRAMS[name]
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):
        got = jax.jit(program)(*placed(mesh, operands))
    check(got, program, operands)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_axis_of_the_mesh_and_no_mesh_around(name):
    program, *operands = PROGRAMS[name]
    got = jax.jit(program)(*placed(mesh_of("Auto"), operands, "e"))
    check(got, program, operands)


def exported(program, *types):
    checks = xla_ffi_kit.export_checks()
    made = export.export(jax.jit(program), disabled_checks=checks)(*types)
    return jax.jit(made.call)


@pytest.mark.parametrize(("kind", "name"), KINDS)
def test_exported_programs(kind, name):
    program, *operands = PROGRAMS[name]
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):
        args = placed(mesh, operands)
        got = exported(program, *args)(*args)
    check(got, program, operands)


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
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
@pytest.mark.parametrize(
    "name",
    ["alias", "side effect", "expand_dims", "sequential", "function"],
)
def test_shards_stay_in_place(kind, name):
    program, *operands = PROGRAMS[name]
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):
        args = placed(mesh, operands)
        text = jax.jit(program).lower(*args).compile().as_text()
    assert not [word for word in COLLECTIVES if word in text]
