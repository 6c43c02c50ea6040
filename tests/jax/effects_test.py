"""Operations with aliases, refs, side effects and state."""

import inline_data  # noqa: F401  four devices, a cache of the test's own
import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from common import LIBRARY, compiled, handled, rows, run_python, twice
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import xla_ffi_kit

# --- Aliases ------------------------------------------------------------------

double = handled("test.double", twice, aliases={"x": 0})


def test_donated_argument_is_updated_in_place():
    """check_op_test has one that is not donated: it stays."""
    x = rows(4, 256)
    assert " copy(" not in compiled(double, x, donate_argnums=0)
    where = x.unsafe_buffer_pointer()
    y = jax.jit(double, donate_argnums=0)(x)
    assert y.unsafe_buffer_pointer() == where
    np.testing.assert_array_equal(y, 2 * rows(4, 256))


def test_alias_under_scan_and_vmap():
    x = rows(3, 8)

    def step(carry, _):
        return double(carry), carry.sum()

    carry, sums = jax.jit(lambda x: jax.lax.scan(step, x, None, 5))(x)
    np.testing.assert_array_equal(carry, 32 * x)
    np.testing.assert_array_equal(sums, x.sum() * 2.0 ** np.arange(5))

    def last(x):
        return jax.lax.scan(step, x, None, 5)[0]

    text = compiled(last, x, donate_argnums=0)
    assert "f32[3,8]{1,0} copy(" not in text
    f = jax.vmap(double, 1, 1)
    np.testing.assert_array_equal(f(x), 2 * x)
    assert " copy(" in compiled(f, x)


# --- A ref that is updated in place, however JAX runs it ----------------------

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


# --- Side effects -------------------------------------------------------------

counter = handled(
    "test.count",
    lambda x: (x, jnp.zeros(x.shape[:-1], jnp.int32)),
    advanced=xla_ffi_kit.Advanced(has_side_effect=True),
)


def calls():
    return int(counter(rows(1))[1])


def runs_of(function, *args):
    before = calls()
    jax.block_until_ready(function(*args))
    return calls() - before - 1


def test_side_effect_is_neither_removed_nor_repeated():
    x = rows(3)

    def unused(x):
        counter(x)
        return x + 1

    assert runs_of(jax.jit(unused), x) == 1
    assert runs_of(unused, x) == 1
    assert runs_of(jax.jit(lambda x: (counter(x), counter(x))), x) == 2

    def loop(x):
        return jax.lax.fori_loop(0, 5, lambda _, x: counter(x)[0], x)

    assert runs_of(jax.jit(loop), x) == 5
    branch = jax.jit(
        lambda p, x: jax.lax.cond(p, lambda x: counter(x)[0], lambda x: x, x)
    )
    assert runs_of(branch, True, x) == 1
    assert runs_of(branch, False, x) == 0


def test_side_effect_under_remat_and_grad():
    x = rows(3)

    def loss(x):
        return jnp.sum(jnp.sin(counter(x)[0]))

    assert runs_of(jax.jit(jax.grad(loss)), x) == 1
    np.testing.assert_allclose(jax.grad(jax.checkpoint(loss))(x), np.cos(x))


def test_side_effect_in_a_loop_under_reverse_mode():
    def step(x):
        counter(x)  # nobody reads it
        return jnp.sin(x)

    def scanned(x):
        return jax.lax.scan(lambda x, _: (step(x), None), x, None, 3)[0].sum()

    def repeated(x):
        return jax.lax.fori_loop(0, 3, lambda _, x: step(x), x).sum()

    x = rows(3)
    assert runs_of(jax.jit(scanned), x) == 3
    assert runs_of(jax.value_and_grad(repeated), x) == 3
    for function in (
        jax.grad(scanned),
        jax.jit(jax.grad(scanned)),
        lambda x: jax.vjp(scanned, x)[0],
        lambda x: jax.linearize(scanned, x)[0],
    ):
        assert runs_of(function, x) == 3


# --- State --------------------------------------------------------------------

STATEFUL = """
import sys, numpy as np, jax, xla_ffi_kit
library = xla_ffi_kit.HandlerLibrary(sys.argv[1])
op = xla_ffi_kit.FfiOp(
    "test.count_runs", lambda: np.zeros((), np.int32),
    libraries=[library], advanced=xla_ffi_kit.Advanced(has_side_effect=True))
if sys.argv[2] == "register first":
    xla_ffi_kit.register(library)
if sys.argv[2] == "early":  # state has to wait for the backend
    xla_ffi_kit.library.registration.register_early(library)
f = jax.jit(lambda: op())
assert [int(f()) for _ in range(3)] == [1, 2, 3]
g = jax.jit(lambda: op() + 10)
assert [int(g()) for _ in range(2)] == [11, 12]
"""


@pytest.mark.parametrize("how", ["use first", "register first", "early"])
def test_stateful_operation_before_anything_else(how):
    result = run_python(STATEFUL, LIBRARY.path, how)
    if jaxlib.__version__ in ("0.9.1", "0.9.2"):  # would crash, see there
        assert "crashes on such handlers; use jaxlib 0.9.0" in result.stderr
    else:
        assert result.returncode == 0, result.stderr
