"""The kit's functions that sort: what JAX's of the same name return."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import bits, rows

import xla_ffi_kit
from xla_ffi_kit import interim

jax.config.update("jax_enable_x64", True)

KEY = jax.random.key(5)
TABLE = np.arange(60.0).reshape(20, 3)


def values(tree):
    """Like bits, but for the sign of zeros and NaNs.

    From jax 0.12 on, JAX sorts for quantiles in any order of equals.
    """

    def value(x):
        if not jnp.issubdtype(x.dtype, jnp.floating):
            return x
        x = np.where(x == 0, x.dtype.type(0), x)
        return np.where(x != x, x.dtype.type(np.nan), x)

    return bits([value(np.asarray(leaf)) for leaf in jax.tree.leaves(tree)])


def same(kit, own, *args, of=bits, **options):
    got, want = kit(*args, **options), own(*args, **options)
    assert of(got) == of(want), (args, options)


@pytest.mark.parametrize(
    "method", ["linear", "lower", "higher", "midpoint", "nearest"]
)
def test_quantile_methods(method):
    x = rows("float32", 41)
    q = np.float32([0, 0.25, 1, 0.5, np.nan, 1.5, -1])
    for args in ((x, 0.3, 1), (x, q, 0)):
        same(
            functools.partial(interim.quantile, method=method),
            functools.partial(jnp.quantile, method=method),
            *args,
            of=values,
        )


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint64", "float16", "bfloat16", "float64"]
)
def test_median_of_dtypes(dtype):
    x = rows(dtype, 40)
    same(interim.median, jnp.median, x, 1, of=values)
    same(interim.median, jnp.median, x[4:7], of=values)


@pytest.mark.parametrize("axis", [None, 0, -1, (2, 0), (0, 1, 2), ()])
def test_quantile_axes(axis):
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    x[1, 2, 3] = np.nan
    for q, keepdims in ((40.0, False), (np.array([10.0, 90]), True)):
        got, want = (
            percentile(x, q, axis, keepdims=keepdims)
            for percentile in (interim.percentile, jnp.percentile)
        )
        assert got.shape == want.shape and got.dtype == want.dtype
        # Which products and sums are rounded as one depends on what is fused.
        np.testing.assert_allclose(got, want, rtol=1e-14)


def test_what_quantile_leaves_to_jax():
    x = jnp.arange(5.0)
    same(
        interim.quantile,
        jnp.quantile,
        x.astype(jnp.float8_e5m2),
        0.5,
    )
    for wrong in (
        lambda: interim.quantile(x, 1),
        lambda: interim.quantile(x[:0], 0.5),
        lambda: interim.quantile(x, 0.5, method="cubic"),
        lambda: interim.quantile(x, np.ones((2, 2))),
        lambda: interim.quantile(x, 0.5, axis=1),
        lambda: interim.quantile(x, 0.5, axis=(0, 0)),
        lambda: interim.quantile(x, 0.5, out=x),
        lambda: interim.quantile(x + 1j, 0.5),
        lambda: interim.median(x, overwrite_input=True),
    ):
        with pytest.raises((TypeError, ValueError)):
            wrong()


def test_derivatives_and_vmap_of_quantiles():
    x = np.random.default_rng(0).standard_normal((5, 4, 7))
    x[3, 1, 2] = np.nan

    def loss(quantile, x, q):
        return (quantile(x, q, axis=-1) ** 2).sum()

    def every(quantile):
        f = functools.partial(loss, quantile)
        return jax.jit(
            lambda x, q: (
                jax.vmap(jax.grad(f, (0, 1)), (1, None))(x, q),
                jax.jvp(f, (x, q), (x[::-1], q)),
                jax.hessian(f)(x[0, 0], q),
            )
        )

    q = np.array([0.2, 0.75])
    got, want = (
        every(interim.quantile)(x, q),
        every(jnp.quantile)(x, q),
    )
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, rtol=1e-12), got, want
    )
    assert np.abs(got[2]).max() > 0


def test_lists_and_numbers():
    assert float(interim.median([3, 1, 2])) == 2
    assert float(interim.quantile(np.float32(3), 0.5)) == 3
    assert interim.percentile([1.0, 3], [0.0, 50]).tolist() == [
        1,
        2,
    ]
    assert xla_ffi_kit.numpy.unique([2, 1, 2]).tolist() == [1, 2]
    assert sorted(interim.permutation(KEY, [1, 2, 3]).tolist()) == [
        1,
        2,
        3,
    ]
    assert xla_ffi_kit.numpy.isin([1, 2], [2]).tolist() == [False, True]


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
    of = values if loses_payload else bits
    same(xla_ffi_kit.numpy.unique, jnp.unique, x, of=of, **options)


def test_unique_of_a_vector():
    x = rows("float64", 41)[1]
    same(xla_ffi_kit.numpy.unique, jnp.unique, x, axis=0, **ALL)
    same(xla_ffi_kit.numpy.unique, jnp.unique, x, axis=-1, equal_nan=False)
    same(xla_ffi_kit.numpy.unique, jnp.unique, x > 0)
    same(xla_ffi_kit.numpy.unique, jnp.unique, x, size=0)


def test_what_unique_leaves_to_jax():
    x = rows("int8", 20)
    for case in (x[:0], x[1] + 1j, jnp.float32(3)):
        same(xla_ffi_kit.numpy.unique, jnp.unique, case)
    same(xla_ffi_kit.numpy.unique, jnp.unique, x, axis=1)
    with pytest.raises(ValueError, match="fill_value must be specified"):
        xla_ffi_kit.numpy.unique(x[:0], size=3)
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(xla_ffi_kit.numpy.unique)(x)


def test_transformations_of_unique():
    x = rows("float32", 41)[1:3]

    def every(unique):
        f = functools.partial(unique, size=9, return_counts=True)
        grad = jax.grad(lambda x: (f(x)[0] ** 2)[:4].sum())
        return jax.jit(jax.vmap(lambda x: (f(x), grad(jnp.nan_to_num(x)))))

    assert bits(every(xla_ffi_kit.numpy.unique)(x)) == bits(
        every(jnp.unique)(x)
    )


@pytest.mark.parametrize(
    "args",
    [
        (0,),
        (1,),
        (2,),
        (np.int32(4000),),
        (TABLE,),
        (TABLE, 1),
        (TABLE, -1, True),
        (TABLE[:, 0], 0, True),
        (rows("bfloat16", 20)[0],),
    ],
    ids=lambda args: f"{getattr(args[0], 'shape', args[0])}, {args[1:]}",
)
def test_permutation(args):
    same(interim.permutation, jax.random.permutation, KEY, *args)
    if args[0] is TABLE:
        old = jax.random.PRNGKey(3)
        same(interim.permutation, jax.random.permutation, old, *args)


@pytest.mark.parametrize(
    "args",
    [
        (10, (2, 3), False),
        (10, (0,), False),
        (100_000, (8,), False),
        (TABLE, (2, 2), False),
        (TABLE, [2], False, None, -1),
        (10, (3,)),
        (10, (3,), False, np.ones(10) / 10),
    ],
    ids=lambda args: f"{getattr(args[0], 'shape', args[0])}, {args[1:]}",
)
def test_choice(args):
    same(interim.choice, jax.random.choice, KEY, *args)


def test_errors_of_random_functions():
    for kit, own, args in [
        (interim.permutation, jax.random.permutation, (KEY, 1.5)),
        (
            interim.permutation,
            jax.random.permutation,
            (KEY, TABLE, 2),
        ),
        (
            interim.permutation,
            jax.random.permutation,
            (jax.random.split(KEY), 3),
        ),
        (interim.choice, jax.random.choice, (KEY, 3, (4,), False)),
        (interim.choice, jax.random.choice, (KEY, 0, (4,), False)),
        (interim.choice, jax.random.choice, (KEY, 3, 2, False)),
    ]:
        with pytest.raises((TypeError, ValueError)) as want:
            own(*args)
        with pytest.raises(want.type) as got:
            kit(*args)
        assert str(got.value) == str(want.value)


def test_random_functions_in_programs():
    keys = jax.random.split(KEY, 3)

    def every(permutation, choice):
        def of_key(key):
            weights = permutation(key, jnp.arange(50.0), independent=True)
            return choice(key, 50, (4,), replace=False), weights

        def loss(x):
            return (permutation(KEY, x) * jnp.arange(20.0)).sum()

        return jax.jit(lambda k, x: (jax.vmap(of_key)(k), jax.grad(loss)(x)))

    x = TABLE[:, 0]
    got = every(interim.permutation, interim.choice)(keys, x)
    want = every(jax.random.permutation, jax.random.choice)(keys, x)
    assert bits(got) == bits(want)


def test_without_x64():
    with jax.enable_x64(False):
        x = rows("float32", 40)[5]
        same(interim.quantile, jnp.quantile, x, 0.3)
        same(xla_ffi_kit.numpy.unique, jnp.unique, x, **ALL)
        same(interim.permutation, jax.random.permutation, KEY, 30)


def test_without_promotion():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    q = np.float32([0.1, 0.6])
    functions = (
        lambda: interim.quantile(x, q, 1),
        lambda: interim.quantile(x, q, 0, method="nearest"),
        lambda: interim.median(x),
        lambda: xla_ffi_kit.numpy.unique(x, size=20, fill_value=7, **ALL),
        lambda: interim.permutation(KEY, x, 1),
        lambda: interim.permutation(KEY, x, 1, independent=True),
        lambda: interim.choice(KEY, x, (2,), replace=False),
        lambda: xla_ffi_kit.numpy.isin(jnp.arange(90), jnp.arange(60)),
        lambda: xla_ffi_kit.numpy.nonzero(x, size=20, fill_value=-1),
    )
    want = [f() for f in functions]
    jax.clear_caches()
    strict = jax.numpy_dtype_promotion("strict")
    with strict, jax.numpy_rank_promotion("raise"):
        assert bits([f() for f in functions]) == bits(want)


def test_programs_call_the_handler():
    x = jnp.arange(90.0)
    for f in (
        interim.median,
        lambda x: interim.quantile(x, 0.3, method="lower"),
        jax.grad(lambda x: interim.percentile(x, 3.0)),
        lambda x: xla_ffi_kit.numpy.unique(x, size=3, **ALL),
        lambda x: interim.permutation(KEY, x),
        lambda x: interim.choice(KEY, x, (3,), replace=False),
    ):
        text = jax.jit(f).lower(x).as_text()
        assert "xla_ffi_kit.sort" in text and "stablehlo.sort" not in text
        with xla_ffi_kit.use_reference("sort", "sort_pairs"):
            text = jax.jit(f).lower(x).as_text()
        assert "xla_ffi_kit.sort" not in text and "stablehlo.sort" in text
