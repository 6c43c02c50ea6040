"""Operations with aliases, side effects and state."""

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from common import (
    LIBRARY,
    compiled,
    handled,
    rows,
    run_python,
    twice,
)

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
