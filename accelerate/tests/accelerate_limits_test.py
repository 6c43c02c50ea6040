"""accelerate: indices up to 2^31, and what handlers do not take.

The arrays are memory that nothing was written to, of which Linux reads the one
page of zeros again and again: two gigabytes take none.
"""

import mmap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_accelerate
import xla_ffi_kit
from xla_ffi_accelerate import registry

LIMIT = 2**31  # elements along an axis
ARGMAX = "xla_ffi_accelerate.argmax"


def zeros(*shape):
    """int8 zeros, as JAX's array of the same memory, and as NumPy's."""
    memory = mmap.mmap(
        -1, int(np.prod(shape)), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    )
    array = np.frombuffer(memory, np.int8).reshape(shape)
    return jax.dlpack.from_dlpack(array), array


def along(name, axis):
    return jax.jit(lambda x: getattr(jax.lax, name)(x, axis, jnp.int32))


@pytest.fixture(autouse=True)
def accelerated():
    with xla_ffi_accelerate.enabled():
        yield


@pytest.mark.parametrize("name, value", [("argmax", 1), ("argmin", -1)])
def test_the_last_index_of_the_longest_line(name, value):
    x, memory = zeros(LIMIT)
    memory[-1] = value
    f = along(name, 0)
    assert f"@{ARGMAX}(" in f.lower(x).as_text()
    assert f(x) == LIMIT - 1


def test_a_line_that_begins_beyond_2_to_the_31():
    x, memory = zeros(3, LIMIT // 2)
    memory[0, 7] = memory[1, -2] = memory[2, -1] = 1
    f = along("argmax", 1)
    assert f"@{ARGMAX}(" in f.lower(x).as_text()
    np.testing.assert_array_equal(f(x), [7, LIMIT // 2 - 2, LIMIT // 2 - 1])


def test_a_longer_line_is_left_to_xla():
    for length, expected in ((LIMIT, True), (LIMIT + 1, False)):
        x = jax.ShapeDtypeStruct((length,), np.int8)
        lowered = along("argmax", 0).trace(x).lower()
        assert (f"@{ARGMAX}(" in lowered.as_text()) == expected, length


def test_the_handler_refuses_a_longer_line():
    call = jax.ffi.ffi_call(ARGMAX, jax.ShapeDtypeStruct((), np.int32))
    xla_ffi_kit.register(*xla_ffi_accelerate.LIBRARIES)
    x, _ = zeros(LIMIT + 1)
    with pytest.raises(
        jax.errors.JaxRuntimeError,
        match=r"operand x: expected 1 to 2\^31 elements along axis 0",
    ):
        call(x, axis=np.int64(0), of="max")


@pytest.mark.parametrize("op", ["cumsum", "cumprod", "cummax", "cummin"])
def test_cumulative_operations_of_bools_are_refused(op):
    x = np.ones((40, 50), bool)
    with pytest.raises(TypeError, match="bool"):
        getattr(jax.lax, op)(x, 1)
    name = {"cumsum": "sum", "cumprod": "product"}.get(op, op[3:])
    aval = jax.typeof(jnp.asarray(x))
    for rule in registry.RULES[op]:
        assert rule.covers(aval, axis=1, reverse=False) is not None
    xla_ffi_kit.register(*xla_ffi_accelerate.LIBRARIES)
    target = "xla_ffi_accelerate.cumulative"
    call = jax.ffi.ffi_call(target, jax.ShapeDtypeStruct(x.shape, x.dtype))
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"expected .*got dtype pred"
    ):
        call(x, axis=np.int64(1), op=name, reverse=np.int64(0))
