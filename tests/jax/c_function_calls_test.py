"""What arrives in a C function, and on which threads it is called."""

import ctypes
import os
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xla_ffi_kit import c_function

jax.config.update("jax_enable_x64", True)

_TYPES = {
    np.dtype(c_type).name: c_type
    for c_type in (
        *(ctypes.c_bool, ctypes.c_float, ctypes.c_double),
        *(ctypes.c_int8, ctypes.c_int16, ctypes.c_int32, ctypes.c_int64),
        *(ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64),
    )
}
_C_NAMES = {"bool": "bool", "float32": "float", "float64": "double"}


def callback(name, python, returns, *parameters, **options):
    """A C function that calls Python, of numbers."""
    types = (returns, *parameters)
    pointer = ctypes.CFUNCTYPE(*(_TYPES[t] for t in types))(python)
    own, *others = (_C_NAMES.get(t, f"{t}_t") for t in types)
    return c_function(
        f"{own}({', '.join(others)})", pointer, name=name, **options
    )


def numbers(dtype, seed, size=130):
    """Numbers of all bits of a type; more than one block."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(size) < 0.5
    if dtype.startswith("f"):
        return rng.standard_normal(size).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, size, dtype, endpoint=True)


MIXED = [
    *("float64", "int8", "float32", "uint16", "float32", "int64", "bool"),
    *("float64", "float32", "float64", "int16", "uint8", "uint64", "float64"),
    *("int32", "uint32", "float64", "float64", "float64", "int64", "int64"),
]


def test_arguments_of_every_type_arrive():
    seen = []
    op = callback(
        "record", lambda *given: seen.append(given) or 0.0, "float64", *MIXED
    )
    given = [numbers(dtype, i) for i, dtype in enumerate(MIXED)]
    jax.block_until_ready(op(*given))
    assert seen == list(zip(*(x.tolist() for x in given), strict=True))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32"])
def test_numbers_go_in_and_out(dtype):
    op = callback(f"same_{dtype}", lambda x: x, dtype, dtype)
    x = numbers(dtype, 0)
    got = op(x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, x)


# --- Threads ------------------------------------------------------------------


class Crowd:
    """A function that knows which threads are in it."""

    def __init__(self):
        self.threads, self.most, self._inside = set(), 0, 0
        self._lock = threading.Lock()

    def __call__(self, x):
        with self._lock:
            self.threads.add(threading.get_native_id())
            self._inside += 1
            self.most = max(self.most, self._inside)
        if x % 512 == 0:
            time.sleep(0.01)
        with self._lock:
            self._inside -= 1
        return x


@pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="needs XLA's threads"
)
def test_a_large_array_is_computed_on_many_threads():
    crowd = Crowd()
    op = callback("crowd", crowd, "float64", "float64")
    x = np.arange(1 << 13, dtype=np.float64)
    np.testing.assert_array_equal(op(x), x)
    assert len(crowd.threads) > 1


def test_a_function_that_is_not_thread_safe_is_called_by_one():
    crowd = Crowd()
    options = {"thread_safe": False}
    one = callback("one", crowd, "float64", "float64", **options)
    other = callback("other", crowd, "float64", "float64", **options)
    x = jnp.arange(1 << 12, dtype=jnp.float64)
    threads = [
        threading.Thread(target=lambda op=op: jax.block_until_ready(op(x)))
        for op in (one, other, one)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert crowd.most == 1
