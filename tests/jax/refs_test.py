"""An operation with aliases updates a ref in place, however JAX runs it."""

import inline_data  # noqa: F401  four devices, a cache of the test's own
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import xla_ffi_kit

BATCH, LENGTH, N = 8, 48, 16


@xla_ffi_kit.inline(
    """
void append(kit::In<float> cache, kit::In<float> entry, kit::In<int32_t> at,
            kit::Out<float> out) {
  const int64_t n = cache.dim(-1), length = cache.dim(-2);
  for (int64_t b = 0; b < at.size(); ++b)
    std::copy(entry.row(b), entry.row(b) + n, &out[(b * length + at[b]) * n]);
}""",
    axes="(length,n),(n),()->(length,n)",
    aliases={"cache": "result"},
)
def append(cache, entry, at):
    here = jnp.arange(cache.shape[-2]) == at[..., None]
    return jnp.where(here[..., None], entry[..., None, :], cache)


@jax.jit
def fill(ref, entry):
    """Appends LENGTH rows, each the sum of those before."""

    def body(entry, i):
        ref[...] = append(ref[...], entry, jnp.full(BATCH, i))
        return ref[...].sum(1), None

    jax.lax.scan(body, entry, jnp.arange(LENGTH))


def filled():
    """What `fill` writes from ones: 1, 1, 2, 4, 8 and so on."""
    rows = np.exp2(np.maximum(np.arange(LENGTH) - 1, 0))[:, None] * np.ones(N)
    return np.broadcast_to(rows, (BATCH, LENGTH, N))


def assert_no_copy(text, rows):
    assert text.count("output_to_operand_aliasing") == 1
    assert f"f32[{rows},{LENGTH},{N}]" in text
    assert f"f32[{rows},{LENGTH},{N}]{{2,1,0}} copy(" not in text


def test_a_compiled_loop_copies_nothing():
    ref, entry = (
        jax.new_ref(jnp.zeros((BATCH, LENGTH, N))),
        jnp.ones((BATCH, N)),
    )
    assert_no_copy(fill.lower(ref, entry).compile().as_text(), BATCH)
    fill(ref, entry)
    np.testing.assert_array_equal(ref[...], filled())


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_on_a_mesh_each_device_keeps_its_rows(kind):
    mesh = jax.make_mesh((4,), ("d",), axis_types=(kind,))
    with jax.set_mesh(mesh):
        by_row = NamedSharding(mesh, P("d"))
        zeros, entry = jax.device_put(
            (jnp.zeros((BATCH, LENGTH, N)), jnp.ones((BATCH, N))), by_row
        )
        ref = jax.new_ref(zeros)
        text = fill.lower(ref, entry).compile().as_text()
        fill(ref, entry)
    assert_no_copy(text, BATCH // 4)
    assert "all-gather" not in text
    np.testing.assert_array_equal(ref[...], filled())


def test_outside_jit_the_ref_holds_what_was_appended():
    ref = jax.new_ref(jnp.zeros((BATCH, LENGTH, N)))
    for i in range(3):
        ref[...] = append(
            ref[...], jnp.full((BATCH, N), i + 1.0), jnp.full(BATCH, i)
        )
    want = np.zeros((BATCH, LENGTH, N))
    want[:, :3] = 1 + np.arange(3)[:, None]
    np.testing.assert_array_equal(ref[...], want)
