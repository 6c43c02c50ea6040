"""accelerate: no call in a loop that is one function, unless it pays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import bits

import xla_ffi_accelerate

CALL = "@xla_ffi_accelerate."


def scan(f, q):
    """Scalars beside `f`, which a call in it would make tasks of."""

    def step(c, _):
        q, s = c
        i = f(q)
        for k in range(6):
            s = jnp.where(s > k, s * 0.5, s + 0.25)
        return (q.at[i].add(s), s), i

    return jax.lax.scan(step, (q, q[0]), None, 9)


def fori(f, q):
    return jax.lax.fori_loop(0, 9, lambda _, x: x.at[f(x)].add(-1.0), q)


def outer(f, q):
    return jax.lax.fori_loop(0, 3, lambda _, x: fori(f, x), q)


def while_(f, q):
    def step(carry):
        x, last = carry
        i = f(x)
        return x.at[i].add(-1.0), jnp.maximum(last - 1, -i)

    return jax.lax.while_loop(lambda c: c[1] > 0, step, (q, 9))[0]


def branch(f, q):
    return fori(lambda x: jax.lax.cond(x[0] > 0, f, lambda _: 0, x), q)


def map_(f, q):
    return jax.lax.map(lambda k: f(q * k), jnp.arange(9.0))


def lowered(function, *arguments):
    with xla_ffi_accelerate.enabled():
        return jax.jit(lambda *x: function(*x)).lower(*arguments)


@pytest.mark.parametrize("loop", [scan, fori, outer, while_, branch, map_])
def test_no_call_in_a_loop_that_is_one_function(loop):
    q = np.random.default_rng(0).permutation(104).astype(np.float32)
    for f in (jnp.argmax, jnp.argmin):
        program = lowered(lambda x, f=f: loop(f, x), q)
        assert CALL not in program.as_text()
        compiled = program.compile()
        assert "xla_cpu_small_call" in compiled.as_text()
        with xla_ffi_accelerate.disabled():
            own = jax.jit(lambda x, f=f: loop(f, x))(q)
        assert bits(compiled(q)) == bits(own)


def test_a_call_that_pays():
    """Outside, where a sort makes tasks anyway, and where it saves more."""
    q = np.random.default_rng(0).permutation(104).astype(np.float32)
    assert CALL in lowered(jnp.argmax, q).as_text()

    def with_sort(x):
        return fori(lambda y: jnp.argmax(y) + jnp.sort(y)[0].astype(int), x)

    assert lowered(with_sort, q).as_text().count(f"{CALL}argmax") == 1
    large = np.tile(q, 16)
    assert CALL in lowered(lambda x: scan(jnp.argmax, x), large).as_text()


def test_the_same_operation_in_two_places():
    q = np.random.default_rng(0).permutation(104).astype(np.float32)

    def both(x):
        return jnp.argmax(x), scan(jnp.argmax, x)

    assert lowered(both, q).as_text().count(f"{CALL}argmax") == 1


def test_the_same_operation_in_two_loops():
    """One of them is made of tasks anyway, by its sort."""
    q = np.random.default_rng(0).permutation(104).astype(np.float32)

    def with_sort(y):
        return jnp.argmax(y) + jnp.sort(y)[0].astype(int)

    for first, second in ((with_sort, jnp.argmax), (jnp.argmax, with_sort)):
        program = lowered(lambda x, f=first, g=second: fori(g, fori(f, x)), q)
        assert program.as_text().count(f"{CALL}argmax") == 1


def test_explain_says_whose_call_it_is():
    q = np.zeros(4096, np.float32)

    def one(x):
        return scan(jnp.argmax, x)

    with xla_ffi_accelerate.enabled():
        (loop,) = xla_ffi_accelerate.explain(one)(q[:128]).loops
        assert loop.is_one_function
        table = xla_ffi_accelerate.explain(one)(q)
    (loop,) = table.loops
    assert not loop.is_one_function
    assert "only this package's calls are to blame" in loop.advice
