"""accelerate: calls in loops that XLA makes one function of, and its option."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import bits, program, python

import xla_ffi_accelerate
from xla_ffi_accelerate import _loops

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


def filtered(p, _):
    """Of five states: products, and more than 1,024 bytes a step."""
    a = jnp.eye(5) + 0.1 * jnp.eye(5, k=1)
    p = a @ p @ a.T + jnp.eye(5)
    gain = p[:, :2] @ jnp.linalg.inv(p[:2, :2] + jnp.eye(2))
    return p - gain @ p[:2], p[0, 0]


def is_one_function():
    f = jax.jit(lambda p: jax.lax.scan(filtered, p, None, 64))
    text = f.lower(jnp.eye(5)).compile().as_text()
    return text.count(" while(") == 1 and "xla_cpu_small_call" in text


IMPORTS = """
import os, warnings
import jax, jax.numpy
warnings.simplefilter("error")
import xla_ffi_accelerate
"""


def words(code, XLA_FLAGS=""):
    """What a process of its own prints."""
    return python("-c", code, XLA_FLAGS=XLA_FLAGS).stdout.split()


def test_a_filter_is_one_function():
    assert not is_one_function()
    code = "xla_ffi_accelerate.enable(exact=False)\nprint(is_one_function())"
    imports = f"from loops_calls_test import is_one_function\n{IMPORTS}"
    assert words(imports + code) == ["True"]


def test_the_users_flags_stay():
    """And a block sets nothing."""
    code = (
        "with xla_ffi_accelerate.enabled('loops'):\n"
        "    print(os.environ.get('XLA_FLAGS', ''))\n"
        "xla_ffi_accelerate.enable('loops')\njax.devices()\n"
        "print(os.environ.get('XLA_FLAGS', ''))"
    )
    other = "--xla_cpu_enable_fast_math=false"
    own = f"--xla_backend_extra_options={_loops.OPTION}="
    has_room = jax.__version_info__ >= (0, 11)
    flags = words(IMPORTS + code, XLA_FLAGS=other)
    added = [] if has_room else [f"{own}{_loops.BYTES}"]
    assert flags == [other, other, *added]
    flags = words(IMPORTS + code, XLA_FLAGS=f"{own}2048")
    assert flags == [f"{own}2048"] * 2


@pytest.mark.skipif(jax.__version_info__ >= (0, 11), reason="has room")
def test_too_late():
    jax.devices()
    with pytest.warns(RuntimeWarning, match="before the first array"):
        xla_ffi_accelerate.enable("loops")
    xla_ffi_accelerate.disable()
