"""accelerate: no call in a loop that is one function, unless it pays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import bits, program

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


Q = np.random.default_rng(0).permutation(104).astype(np.float32)


@pytest.mark.parametrize(
    "loop, f",
    [
        (scan, jnp.argmin),
        *((loop, jnp.argmax) for loop in (fori, outer, while_, branch, map_)),
    ],
)
def test_no_call_in_a_loop_that_is_one_function(loop, f):
    with xla_ffi_accelerate.enabled():
        lowered = jax.jit(lambda x: loop(f, x)).lower(Q)
    assert CALL not in lowered.as_text()
    compiled = lowered.compile()
    assert "xla_cpu_small_call" in compiled.as_text()
    with xla_ffi_accelerate.disabled():
        assert bits(compiled(Q)) == bits(jax.jit(lambda x: loop(f, x))(Q))


def with_sort(x):
    return jnp.argmax(x) + jnp.sort(x)[0].astype(int)


def calls(f, x=Q):
    return program(f, x).count(f"{CALL}argmax")


def test_a_call_that_pays():
    """Outside, where a sort makes tasks anyway, and where it saves more."""
    assert calls(jnp.argmax) == 1
    assert calls(lambda x: fori(with_sort, x)) == 1
    assert calls(lambda x: scan(jnp.argmax, x), np.tile(Q, 16)) == 1


def test_the_same_operation_in_two_places():
    """The second time, one of two loops is made of tasks by its sort."""
    assert calls(lambda x: (jnp.argmax(x), scan(jnp.argmax, x))) == 1
    for first, second in ((with_sort, jnp.argmax), (jnp.argmax, with_sort)):
        assert calls(lambda x, f=first, g=second: fori(g, fori(f, x))) == 1


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
