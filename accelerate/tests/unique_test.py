"""xla_ffi_accelerate.numpy.unique: what JAX's function of that name returns."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import bits, rows

import xla_ffi_accelerate
import xla_ffi_kit

jax.config.update("jax_enable_x64", True)


def without_payload(tree):
    """Like bits, except for the bits of NaNs and the sign of zeros."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    zeros = [np.where(x == 0, x.dtype.type(0), x) for x in leaves]
    return bits([np.where(x != x, x.dtype.type(7), x) for x in zeros])


def same(kit, own, *args, of=bits, **options):
    got, want = kit(*args, **options), own(*args, **options)
    assert of(got) == of(want), (args, options)


ALL = dict.fromkeys(("return_index", "return_inverse", "return_counts"), True)


@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float32"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"size": 400, **ALL},
        {"size": 40, "fill_value": 7, "return_counts": True},
        {"size": 3, "equal_nan": False, "return_inverse": True},
    ],
    ids=str,
)
def test_unique(dtype, options):
    x = rows(dtype, 41)
    # Where XLA gathers bf16 by way of f32, it loses the payload of NaNs.
    loses_payload = dtype == "bfloat16" and jax.__version_info__ < (0, 10)
    of = without_payload if loses_payload else bits
    same(xla_ffi_accelerate.numpy.unique, jnp.unique, x, of=of, **options)


def test_unique_of_a_vector():
    x = rows("float64", 41)[1]
    same(xla_ffi_accelerate.numpy.unique, jnp.unique, x, axis=0, **ALL)
    same(
        xla_ffi_accelerate.numpy.unique, jnp.unique, x, axis=-1, equal_nan=False
    )
    same(xla_ffi_accelerate.numpy.unique, jnp.unique, x > 0)
    same(xla_ffi_accelerate.numpy.unique, jnp.unique, x, size=0)


def test_what_unique_leaves_to_jax():
    x = rows("int8", 20)
    for case in (x[:0], x[1] + 1j, jnp.float32(3)):
        same(xla_ffi_accelerate.numpy.unique, jnp.unique, case)
    same(xla_ffi_accelerate.numpy.unique, jnp.unique, x, axis=1)
    with pytest.raises(ValueError, match="fill_value must be specified"):
        xla_ffi_accelerate.numpy.unique(x[:0], size=3)
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(xla_ffi_accelerate.numpy.unique)(x)


def test_transformations_of_unique():
    x = rows("float32", 41)[1:3]

    def every(unique):
        f = functools.partial(unique, size=9, return_counts=True)
        grad = jax.grad(lambda x: (f(x)[0] ** 2)[:4].sum())
        return jax.jit(jax.vmap(lambda x: (f(x), grad(jnp.nan_to_num(x)))))

    assert bits(every(xla_ffi_accelerate.numpy.unique)(x)) == bits(
        every(jnp.unique)(x)
    )


def test_lists():
    assert xla_ffi_accelerate.numpy.unique([2, 1, 2]).tolist() == [1, 2]
    assert xla_ffi_accelerate.numpy.isin([1, 2], [2]).tolist() == [False, True]


def test_without_x64():
    with jax.enable_x64(False):
        x = rows("float32", 40)[5]
        same(xla_ffi_accelerate.numpy.unique, jnp.unique, x, **ALL)


def test_without_promotion():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    functions = (
        lambda: xla_ffi_accelerate.numpy.unique(
            x, size=20, fill_value=7, **ALL
        ),
        lambda: xla_ffi_accelerate.numpy.isin(jnp.arange(90), jnp.arange(60)),
        lambda: xla_ffi_accelerate.numpy.nonzero(x, size=20, fill_value=-1),
    )
    want = [f() for f in functions]
    jax.clear_caches()
    strict = jax.numpy_dtype_promotion("strict")
    with strict, jax.numpy_rank_promotion("raise"):
        assert bits([f() for f in functions]) == bits(want)


def test_programs_call_the_handler():
    x = jnp.arange(90.0)

    def f(x):
        return xla_ffi_accelerate.numpy.unique(x, size=3, **ALL)

    text = jax.jit(f).lower(x).as_text()
    assert "xla_ffi_accelerate.sort" in text and "stablehlo.sort" not in text
    with xla_ffi_kit.use_reference("sort", "sort_pairs"):
        text = jax.jit(f).lower(x).as_text()
    assert "xla_ffi_accelerate.sort" not in text and "stablehlo.sort" in text
