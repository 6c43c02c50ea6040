"""The key-value cache is updated in place, in every way that JAX runs it."""

import os
import tempfile

os.environ["XLA_FFI_KIT_CACHE"] = tempfile.mkdtemp(
    dir=os.environ.get("TEST_TMPDIR")
)
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
)

import re
import resource

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import xla_ffi_kit
from kv_cache import Cache, append, decode, new_cache, step
from xla_ffi_kit.testing import Case, check_op

BATCH, LENGTH, N = 8, 48, 16
X = jnp.ones((BATCH, N))
WEIGHTS = jax.random.normal(jax.random.key(0), (3, N, N)) / 3


@xla_ffi_kit.inline(
    """
void address(kit::In<float> x, kit::Out<uint32_t> bits) {
  std::fill(bits.begin(), bits.end(), uint32_t(uintptr_t(x.data())));
}""",
    kernel_axes=2,
)
def address(x):
    """Where an array lies: the low bits of its address."""
    return jnp.zeros(x.shape[:-2], np.uint32)


def plain(steps):
    """The tokens without a cache: each step over all keys and values."""
    x, keys, values, ys = X, [], [], []
    for _ in range(steps):
        query, key, value = jnp.einsum("bn,knm->kbm", x, WEIGHTS)
        keys.append(key)
        values.append(value)
        scores = jnp.einsum("bn,lbn->bl", query, jnp.stack(keys)) / N**0.5
        seen = jax.nn.softmax(scores)
        x = jnp.tanh(x + jnp.einsum("bl,lbn->bn", seen, jnp.stack(values)))
        ys.append(x)
    return jnp.stack(ys)


def copies(text):
    """The copies of a whole cache in a compiled program."""
    return re.findall(rf"f32\[\d+,{LENGTH},{N}\]\S* copy\(.*", text)


def looking(weights, cache, x, position):
    """A step, and where the keys lie before and after it."""
    before = address(cache.keys[...])
    # What is appended depends on the first look, or XLA lets it look at a copy.
    x += before[:, None].astype(x.dtype) * 0
    y = step(weights, cache, x, position)
    return y, (before, address(cache.keys[...]))


def test_it_computes_attention():
    got = decode(WEIGHTS, new_cache(BATCH, LENGTH, N), X)
    want = jax.jit(plain, static_argnums=0)(5)
    np.testing.assert_allclose(got[:5], want, atol=1e-5)


@pytest.mark.parametrize("how", ["jit", "scan"])
def test_a_step_writes_into_the_buffer_that_it_reads(how):
    cache, run = new_cache(BATCH, LENGTH, N), jax.jit(looking)
    if how == "jit":
        found = [run(WEIGHTS, cache, X, jnp.int32(i))[1] for i in range(4)]
    else:
        found = jax.jit(
            lambda cache, x: jax.lax.scan(
                lambda x, i: looking(WEIGHTS, cache, x, i), x, jnp.arange(4)
            )[1]
        )(cache, X)
    assert len(np.unique(found)) == 1
    written = np.any(cache.keys[...], axis=(0, 2))
    np.testing.assert_array_equal(written, np.arange(LENGTH) < 4)


def test_outside_jit_the_ref_holds_what_was_appended():
    cache, entry = jax.new_ref(jnp.zeros((BATCH, LENGTH, N))), X
    for i in range(3):
        cache[...] = append(cache[...], entry + i, jnp.full(BATCH, i))
    want = np.zeros((BATCH, LENGTH, N))
    want[:, :3] = 1 + np.arange(3)[:, None]
    np.testing.assert_array_equal(cache[...], want)


def test_a_compiled_loop_copies_no_cache():
    cache = new_cache(BATCH, LENGTH, N)
    text = decode.lower(WEIGHTS, cache, X).compile().as_text()
    assert text.count("output_to_operand_aliasing") == 2
    assert not copies(text)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_on_a_mesh_each_device_keeps_its_rows(kind):
    mesh = jax.make_mesh((4,), ("d",), axis_types=(kind,))
    with jax.set_mesh(mesh):
        by_row = NamedSharding(mesh, P("d"))
        x, keys, values = jax.device_put(
            (X, *[jnp.zeros((BATCH, LENGTH, N)) for _ in Cache._fields]),
            by_row,
        )
        cache = Cache(jax.new_ref(keys), jax.new_ref(values))
        text = decode.lower(WEIGHTS, cache, x).compile().as_text()
        got = decode(WEIGHTS, cache, x)
    assert f"f32[{BATCH // 4},{LENGTH},{N}]" in text
    assert "all-gather" not in text and not copies(text)
    assert text.count("output_to_operand_aliasing") == 2
    want = decode(WEIGHTS, new_cache(BATCH, LENGTH, N), X)
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_a_thousand_appends_take_no_memory():
    cache = jax.new_ref(jnp.zeros((BATCH, 1000, 1024)))  # 32 MiB

    @jax.jit
    def write(cache, i):
        entry = jnp.full((BATCH, 1024), i, jnp.float32)
        cache[...] = append(cache[...], entry, jnp.full(BATCH, i))

    write(cache, 0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(1000):
        write(cache, i)
    jax.block_until_ready(cache[0, 0])
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 8 * 1024  # KiB
    want = np.broadcast_to(np.arange(1000.0)[:, None], (BATCH, 1000, 1024))
    np.testing.assert_array_equal(cache[...], want)


def test_a_position_out_of_range_writes_nothing():
    cache = jnp.ones((2, 3, 4))
    for position in (-1, 3, 2**31 - 1):
        at = jnp.full(2, position, jnp.int32)
        got = append(cache, jnp.zeros((2, 4)), at)
        np.testing.assert_array_equal(got, cache)


def test_append_keeps_the_contract_of_an_operation():
    check_op(append, [Case("float32[5,3]", "float32[3]", "int32[]")])
