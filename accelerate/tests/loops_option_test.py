"""accelerate: XLA's option for loops, and which of them are one function."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import python

import xla_ffi_accelerate
from xla_ffi_accelerate import _loops

OPTION = "xla_cpu_small_while_loop_byte_threshold"
OWN = f"--xla_backend_extra_options={OPTION}={_loops.BYTES}"
HAS_ROOM = jax.__version_info__ >= (0, 11)


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


def run(code, XLA_FLAGS="", **variables):
    """What a process of its own prints."""
    return python("-c", code, XLA_FLAGS=XLA_FLAGS, **variables).stdout.split()


def test_a_filter_is_one_function():
    assert not is_one_function()
    code = "xla_ffi_accelerate.enable(exact=False)\nprint(is_one_function())"
    imports = f"from loops_option_test import is_one_function\n{IMPORTS}"
    assert run(imports + code) == ["True"]


def test_the_users_flags_stay():
    """And a block sets nothing."""
    code = (
        "with xla_ffi_accelerate.enabled('loops'):\n"
        "    print(os.environ.get('XLA_FLAGS', ''))\n"
        "xla_ffi_accelerate.enable('loops')\njax.devices()\n"
        "print(os.environ.get('XLA_FLAGS', ''))"
    )
    other = "--xla_cpu_enable_fast_math=false"
    flags = run(IMPORTS + code, XLA_FLAGS=other)
    assert flags == [other, other, *([] if HAS_ROOM else [OWN])]
    own = f"--xla_backend_extra_options={OPTION}=2048"
    assert run(IMPORTS + code, XLA_FLAGS=own) == [own, own]


@pytest.mark.skipif(HAS_ROOM, reason="has room")
def test_too_late():
    jax.devices()
    with pytest.warns(RuntimeWarning, match="before the first array"):
        xla_ffi_accelerate.enable("loops")
    xla_ffi_accelerate.disable()


def loops(f, *arguments):
    return xla_ffi_accelerate.explain(f)(*arguments).loops


def scanned(step, steps):
    return lambda x: jax.lax.scan(lambda y, _: (step(y), None), x, None, steps)[
        0
    ]


def test_explain_loops():
    x = jnp.ones(8)
    (loop,) = loops(scanned(jnp.sin, 11), x)
    assert loop.is_one_function and loop.steps == 11
    # XLA of jax 0.8 keeps no lines.
    where = r"loops_option_test.py:\d+|jit\(<lambda>\)/while"
    assert re.fullmatch(f"({where}): 11 steps, one function", str(loop))
    with xla_ffi_accelerate.disabled():
        (loop,) = loops(scanned(jnp.sort, 12), x)
    assert not loop.is_one_function and list(loop.calls) == ["sort"]
    assert 'enable("sort")' in str(loop)
    with xla_ffi_accelerate.enabled("sort"):
        (loop,) = loops(scanned(jnp.sort, 13), x)
    assert loop.is_one_function and loop.copied < 64


def test_explain_what_no_rule_writes_out():
    a = jnp.eye(20)
    with xla_ffi_accelerate.enabled(exact=False):
        found = loops(scanned(jnp.linalg.inv, 9), a)
    # LAPACK's permutation is a loop of its own.
    (loop,) = (loop for loop in found if loop.steps == 9)
    assert "lu" in loop.calls and not loop.is_one_function


def test_explain_copies():
    def step(state):
        i, ring, x = state
        return i + 1, ring.at[i % 50000].set(x[0]), x + ring[(i + 5) % 50000]

    state = np.int32(0), jnp.zeros(50000), jnp.ones(8)
    (loop,) = loops(scanned(step, 7), state)
    assert "copies 200000 bytes" in str(loop)

    def reads_what_it_wrote(state):
        i, ring, x = state
        ring = ring.at[i % 50000].set(x[0])
        return i + 1, ring, x + ring[(i + 5) % 50000]

    (loop,) = loops(scanned(reads_what_it_wrote, 7), state)
    assert loop.is_one_function and loop.copied < 64
