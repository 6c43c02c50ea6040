"""accelerate: every sort bit for bit that of JAX without the kit."""

import functools
import itertools

import jax
import numpy as np
import pytest
from accelerate_data import DTYPES, bits, check_equal, rows, specials

import xla_ffi_accelerate

jax.config.update("jax_enable_x64", True)

LENGTHS = (0, 1, 2, 15, 17, 100, 1000)


@functools.cache
def sorter(**options):
    def sort(*operands):
        operands = operands[0] if len(operands) == 1 else operands
        return jax.lax.sort(operands, **options)

    return jax.jit(sort)


def payload(shape, dtype):
    count = int(np.prod(shape))
    return np.arange(count).astype(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values(dtype):
    check_equal(
        {f"{dtype}[{n}]": (sorter(), (rows(dtype, n),)) for n in LENGTHS}
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_key_with_payload(dtype):
    cases = {}
    for n, of in zip((0, 1, 16, 500), itertools.cycle(["int32", "complex128"])):
        key = rows(dtype, n)
        cases[f"{dtype}[{n}], {of}"] = sorter(), (key, payload(key.shape, of))
    check_equal(cases)


def test_many_keys_of_mixed_dtypes():
    cases = {}
    for seed, num_keys in enumerate([2, 3, 5]):
        names = np.random.default_rng(seed).permutation(DTYPES)[:num_keys]
        keys = []
        for name in names:  # few values, so that later keys decide
            special = specials(jax.numpy.dtype(name))
            few = np.random.default_rng(seed).integers(0, 3, (4, 300))
            keys.append(special[few % len(special)])
        rest = [payload((4, 300), "uint8"), payload((4, 300), "complex64")]
        f = sorter(num_keys=num_keys)
        cases[f"{names}"] = f, (*keys, *rest)
    check_equal(cases)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bfloat16", "bool"])
def test_long_rows_that_threads_share(dtype):
    every = rows(dtype, 140_001)
    cases = {}
    for i, row in enumerate(every):
        cases[f"{dtype}, {i}"] = sorter(), (row,)
        cases[f"{dtype}, {i}, index"] = (
            sorter(),
            (row, payload(row.shape, "i4")),
        )
    check_equal(cases)


def test_every_axis():
    x = rows("float32", 60, seed=1).reshape(9, 3, 20)
    y = payload(x.shape, "int16")
    check_equal(
        {
            f"axis {axis}": (sorter(dimension=axis), (x, y))
            for axis in (0, 1, 2, -1, -3)
        }
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_an_unstable_sort_is_a_stable_one(dtype):
    x = rows(dtype, 300)
    y = payload(x.shape, "int32")
    with xla_ffi_accelerate.enabled("sort"):
        f = jax.jit(lambda *x: jax.lax.sort(x, num_keys=1, is_stable=False))
        assert "xla_ffi_accelerate.sort" in f.lower(x, y).as_text()
        got = f(x, y)
    xla_ffi_accelerate.disable()
    assert bits(got) == bits(sorter(num_keys=1)(x, y))


def test_bf16_payload():
    x, key = rows("bfloat16", 300), rows("int8", 300)
    f = sorter(num_keys=1)
    g = sorter(num_keys=2, dimension=0)
    check_equal({"by int8": (f, (key, x)), "columns": (g, (key, x, x))})


def test_many_random_shapes():
    random = np.random.default_rng(7)
    cases = {}
    for i in range(12):
        shape = tuple(random.integers(0, 40, random.integers(1, 4)))
        dtype = random.choice(DTYPES)
        special = specials(jax.numpy.dtype(dtype))
        x = special[random.integers(0, len(special), shape)]
        axis = int(random.integers(0, len(shape)))
        f = sorter(dimension=axis)
        cases[f"{i}: {dtype}{shape} {axis}"] = f, (x, payload(shape, "i4"))
    check_equal(cases)
