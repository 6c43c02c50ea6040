"""accelerate: every sort bit for bit that of JAX without the kit."""

import functools
import itertools

import jax
import numpy as np
import pytest
from accelerate_data import DTYPES, check_equal, rows, specials

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


def test_unstable_sorts_leave_ties_as_xla_happens_to():
    f = sorter(is_stable=False)
    x, k = rows("float32", 300), rows("int32", 300)
    check_equal({"x": (f, (x,)), "k": (f, (k,)), "k, x": (f, (k, x))})


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
