"""accelerate("scatter"): a few windows, written out in loops."""

import os

os.environ["XLA_FLAGS"] = (
    "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=16384"
)

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import bits, both, program, rows
from loops_data import in_loop

import xla_ffi_accelerate

jax.config.update("jax_enable_x64", True)

STEPS = 12
NAMES = ["scatter"], ["scatter", "loops"]


def check(f, *arguments, exact=True, is_written_out=True):
    """Both have the same bits; with a scatter, unless it is written out."""
    want, got, text = both(in_loop(f), *arguments, exact=exact)
    assert ("stablehlo.scatter" not in text) == is_written_out
    assert bits(got) == bits(want)


def indices(count, length):
    """Equal ones, negative ones, and ones out of range."""
    random = np.random.default_rng(count)
    found = random.integers(-length - 2, length + 2, (STEPS, count))
    found[::3] = found[::3, :1]
    return found.astype(np.int32)


def operands(dtype, *shape):
    """An array of so many rows for each step."""
    size = int(np.prod(shape))
    each = [rows(dtype, size, i)[0] for i in range(STEPS)]
    return np.stack(each).reshape(STEPS, *shape)


# Whether these are written out: if exact names are on, and with "loops".
DTYPES = {
    "set": {"bool": (1, 1), "float16": (1, 1), "complex64": (1, 1)},
    "add": {"float32": (0, 1), "float64": (0, 1), "float16": (0, 0)},
    "multiply": {"float32": (0, 1), "float64": (0, 1), "float16": (0, 0)},
    "min": {"float32": (1, 1), "float64": (1, 1), "float16": (0, 0)},
    "max": {"float32": (1, 1), "float64": (1, 1), "float16": (0, 0)},
}


@pytest.mark.parametrize("kind", DTYPES)
def test_dtypes(kind):
    """The fuzzer compares the values; it draws dtypes and modes."""
    integers = {"int32": (1, 1), "uint8": (1, 1), "bfloat16": (0, 0)}
    for dtype, expected in (DTYPES[kind] | integers).items():
        x, y = np.ones((STEPS, 5, 4), dtype), np.ones((STEPS, 3, 4), dtype)
        f = in_loop(lambda x, i, y: getattr(x.at[i], kind)(y))
        texts = (program(f, x, indices(3, 5), y, names=n) for n in NAMES)
        found = tuple("stablehlo.scatter" not in text for text in texts)
        assert found == expected, dtype


def test_windows():
    """Of several axes, in any order, and shorter than an axis."""
    numbers = jax.lax.ScatterDimensionNumbers((1, 2), (0,), (0, 2))

    def every(x, i, j, first, second, third):
        return (
            x.at[:, i].set(first),
            x.at[i, :, j].set(second),
            x.at[i[:, None], 0, j[None, :1]].max(0.25),
            jax.lax.scatter(x, jnp.stack([i, j], -1), third, numbers),
        )

    shapes = (4, 5, 6), (4, 2, 6), (2, 5), (2, 3, 4)
    x, *windows = (operands("float32", *shape) for shape in shapes)
    check(every, x, indices(2, 4), indices(2, 6), *windows)


def test_gradients():
    """That of an indexed array adds."""
    x, y = operands("float64", 5, 2), operands("float64", 3, 2)
    x, y = np.nan_to_num(x, posinf=2, neginf=3), np.nan_to_num(y, posinf=1)
    f = jax.grad(lambda x, i, y: (x[i] * y).sum())
    want, got, text = both(in_loop(f), x, indices(3, 5), y, exact=False)
    assert "stablehlo.scatter" not in text
    np.testing.assert_allclose(got[0], want[0], rtol=1e-15)


def test_what_is_not_written_out():
    """One window, more than three, large arrays, batches, no loop."""
    x, at = operands("int32", 8), indices(4, 8)

    def add(x, i):
        return x.at[i].add(1)

    check(add, x, at, is_written_out=False)
    check(add, x, at[:, :1], is_written_out=False)
    check(add, operands("int32", 129), at[:, :2], is_written_out=False)
    check(
        jax.vmap(add),
        *(np.stack([x, x], 1), np.stack([at, at], 1)[..., :2]),
        is_written_out=False,
    )
    with xla_ffi_accelerate.enabled(exact=True):
        text = jax.jit(add).lower(x[0], at[0, :2]).as_text()
    assert "stablehlo.scatter" in text


def test_a_function_of_ones_own():
    """`apply` is a scatter with the function in place of the updates."""
    x, at = operands("float32", 5), indices(3, 5)
    shift = np.float32(3)
    check(lambda x, i: x.at[i].apply(jnp.sqrt), x, at, is_written_out=False)
    check(lambda x, i: x.at[i].apply(lambda y: y), x, at, is_written_out=False)
    check(
        lambda x, i: x.at[i].apply(lambda y: y + shift),
        *(x, at),
        is_written_out=False,
    )
