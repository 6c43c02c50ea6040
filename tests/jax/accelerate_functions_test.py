"""accelerate: functions of JAX that sort give the same bits, with the kit."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import bits, check_equal, rows

import xla_ffi_kit

jax.config.update("jax_enable_x64", True)


def test_numpy_functions():
    x = rows("float32", 40, seed=3)
    k = rows("int16", 40, seed=3)
    cases = {
        "sort, descending": (lambda x: jnp.sort(x, descending=True), (x,)),
        "argsort": (jnp.argsort, (x,)),
        "argsort, descending": (
            lambda k: jnp.argsort(k, axis=0, descending=True),
            (k,),
        ),
        "lexsort": (lambda x, k: jnp.lexsort((x, k)), (x, k)),
        "median": (jnp.median, (x[2:],)),
        "percentile": (
            lambda x: jnp.percentile(x, jnp.array([5.0, 50, 97]), axis=1),
            (x,),
        ),
        "unique": (
            lambda k: jnp.unique(
                k,
                return_index=True,
                return_inverse=True,
                return_counts=True,
            ),
            (k,),
        ),
        "unique of floats": (jnp.unique, (x,)),
        "isin": (lambda k: jnp.isin(k, k[2, ::7], method="sort"), (k,)),
        "searchsorted": (
            lambda x: jnp.searchsorted(x[5], x[2], method="sort"),
            (x,),
        ),
        "complex": (lambda x: jnp.sort(x[5:7] + 1j * x[6:8]), (x,)),
    }
    check_equal(cases)


def test_random_functions():
    key = jax.random.key(3)

    def choice(key):
        return jax.random.choice(key, 5000, (64,), replace=False)

    def weighted(key):
        p = jnp.arange(1.0, 41) / 820
        return jax.random.choice(key, 40, (20,), replace=False, p=p)

    def of_rows(key):
        x = jnp.arange(60.0).reshape(20, 3)
        return jax.random.permutation(key, x, independent=True)

    check_equal(
        {
            "permutation": (lambda k: jax.random.permutation(k, 3000), (key,)),
            "permutation of rows": (of_rows, (key,)),
            "choice": (choice, (key,)),
            "weighted choice": (weighted, (key,)),
        }
    )


def test_transformations():
    x = rows("float32", 30, seed=4)[2:6]
    y = np.arange(x.size, dtype=np.float32).reshape(x.shape)

    def both(x, y):
        return jax.lax.sort((x, y), num_keys=1)

    def loss(x, y):
        return (jnp.stack(both(x, y)) * jnp.arange(30.0)).sum()

    check_equal(
        {
            "jvp": (lambda x, y: jax.jvp(both, (x, y), (y, x)), (x, y)),
            "grad": (jax.grad(loss, (0, 1)), (x, y)),
            "hessian": (
                jax.hessian(lambda x: (jnp.sort(x) ** 3).sum()),
                (x[0],),
            ),
            "vmap": (jax.vmap(both, (0, None)), (x, y[0])),
            "vmap of columns": (jax.vmap(both, 1, 1), (x, y)),
            "vmap of grad": (jax.vmap(jax.grad(loss)), (x, y)),
            "grad of median": (jax.grad(jnp.median), (x[0],)),
            "scan": (
                lambda x: jax.lax.scan(
                    lambda c, row: (jnp.sort(c + row), c[0]), x[0], x
                ),
                (x,),
            ),
        }
    )


def test_programs_call_the_handler():
    x = jnp.zeros((3, 50))
    functions = [
        jnp.sort,
        jnp.argsort,
        lambda x: jnp.unique(x, size=3),
        lambda x: jax.random.permutation(jax.random.key(0), x[0]),
        jax.vmap(jax.grad(lambda x: jnp.sort(x)[3])),
    ]
    # jax 0.12 lets these two sort floats in any order of 0.0 and -0.0.
    if jax.__version_info__ < (0, 11):
        functions += [jnp.median, lambda x: jnp.percentile(x, 3.0)]
    with xla_ffi_kit.accelerate("sort"):
        for f in functions:
            text = jax.jit(f).lower(x).as_text()
            assert "xla_ffi_kit.sort" in text
            assert "stablehlo.sort" not in text


@pytest.mark.parametrize("donate", [(), (0,)])
def test_donated_operand(donate):
    x = rows("float32", 1000)
    want = bits(jax.jit(jnp.sort)(x))
    with xla_ffi_kit.accelerate():
        f = jax.jit(jnp.sort, donate_argnums=donate)
        assert bits(f(jnp.asarray(x))) == want


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q"]))
