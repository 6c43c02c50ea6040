"""Results of a whole call: of its rows, elements of vmap, devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import collectives, mesh_of, on, said
from jax.sharding import PartitionSpec

import xla_ffi_kit
from xla_ffi_kit import Advanced
from xla_ffi_kit.testing import Case, check_op

CODE = """
#include <algorithm>
#include <cstdint>
void counted(kit::In<float> x, kit::Out<float> y, kit::Out<int32_t> most,
             kit::Out<int32_t> least, kit::Out<int32_t> total) {
  most[0] = total[0] = 0;
  least[0] = INT32_MAX;
  for (int64_t r = 0; r < x.rows(); ++r) {
    int32_t count = 0;
    for (int64_t i = 0; i < x.columns(); ++i) {
      y.row(r)[i] = 2 * x.row(r)[i];
      count += x.row(r)[i] > 0;
    }
    most[0] = std::max(most[0], count);
    least[0] = std::min(least[0], count);
    total[0] += count;
  }
}"""
HOW = {1: "max", "least": "min", 3: "sum"}


def counted(x):
    count = jnp.sum(x > 0, -1, dtype=np.int32)
    most = jnp.max(count, initial=0)
    least = jnp.min(count, initial=np.iinfo(np.int32).max)
    return 2 * x, most, least, jnp.sum(count, dtype=np.int32)


def operation(how=HOW, **options):
    # The names of the results are in the library's signature.
    how = {2 if k == "least" else k: v for k, v in how.items()}
    advanced = Advanced(shared_results=how, **options)
    return xla_ffi_kit.inline(
        CODE, axes="(n)->(n),(),(),()", advanced=advanced
    )(counted)


X = np.random.default_rng(0).normal(size=(8, 6, 5)).astype(np.float32)


def same(got, want):
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_call_has_one_and_each_element_of_vmap():
    op = operation()
    same(op(X), counted(X))
    same(jax.jit(jax.vmap(op))(X), jax.vmap(counted)(X))
    same(jax.vmap(jax.vmap(op, 1))(X), jax.vmap(jax.vmap(counted, 1))(X))
    dx = jax.grad(lambda x: jax.vmap(op)(x)[0].sum())(X)
    np.testing.assert_array_equal(dx, np.full_like(X, 2))


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_devices_are_combined_as_declared(kind, x64):
    op, mesh = operation(), mesh_of(kind, (4,), ("d",))
    with jax.set_mesh(mesh), jax.enable_x64(x64):
        placed = on(mesh, X, "d")
        got = jax.jit(op)(placed)
        same(got, counted(X))
        assert got[0].sharding.spec[0] == "d"
        assert collectives(op, placed) == ["all-reduce"]
        # Of elements that all devices have, each has its own results.
        inner = jax.jit(jax.vmap(op, 1, (1, 0, 0, 0)))
        same(inner(placed), jax.vmap(counted, 1, (1, 0, 0, 0))(X))


def test_elements_of_vmap_that_are_sharded():
    op, mesh = operation(), mesh_of("Explicit", (4,), ("d",))
    with jax.set_mesh(mesh):
        placed = on(mesh, X, "d")
        text = said(jax.jit(jax.vmap(op)), placed)
        assert text == (
            "ValueError: counted: vmap: operand x: expected an axis that is "
            "not sharded, as each of its elements is a call with shared "
            "results of its own, got one over 'd'; vmap it inside of a "
            "jax.shard_map"
        )
        spec = PartitionSpec("d")
        inside = jax.shard_map(
            jax.vmap(op), in_specs=spec, out_specs=spec, check_vma=False
        )
        same(jax.jit(inside)(placed), jax.vmap(counted)(X))
    mesh = mesh_of("Auto", (4,), ("d",))
    same(jax.jit(jax.vmap(op))(on(mesh, X, "d")), jax.vmap(counted)(X))


def test_every_transformation_keeps_them():
    check_op(operation(), [Case("float32[4]")])


def test_a_handler_of_one_batch_axis():
    op = operation(one_batch_axis=True)
    same(op(X), counted(X))
    same(op(X[0, 0]), counted(X[0, 0]))


def test_what_is_refused():
    assert said(operation, {1: "mean"}) == (
        "ValueError: counted: shared_results: expected of each one of ('sum', "
        "'max', 'min'), got {1: 'mean'}"
    )
    assert said(operation, vmap_method="sequential") == (
        "ValueError: counted: vmap_method: expected 'broadcast_all' with "
        "shared results, got 'sequential'"
    )
