"""xla_ffi_accelerate.numpy: what JAX's functions of those names return.

test_random_arrays has every dtype.
"""

import functools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import DTYPES, bits, rows, specials
from hypothesis import strategies as st

import xla_ffi_accelerate.numpy as xnp
import xla_ffi_kit

jax.config.update("jax_enable_x64", True)

ALL = dict.fromkeys(("return_index", "return_inverse", "return_counts"), True)


def without_payload(tree):
    """Like bits, except for the bits of NaNs and the sign of zeros."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    zeros = [np.where(x == 0, x.dtype.type(0), x) for x in leaves]
    return bits([np.where(x != x, x.dtype.type(7), x) for x in zeros])


def same(name, *args, of=bits, **options):
    got = getattr(xnp, name)(*args, **options)
    want = getattr(jnp, name)(*args, **options)
    assert of(got) == of(want), (args, options)


@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float32"])
def test_unique(dtype):
    x = rows(dtype, 41)
    # Where XLA gathers bf16 by way of f32, it loses the payload of NaNs.
    loses_payload = dtype == "bfloat16" and jax.__version_info__ < (0, 10)
    of = without_payload if loses_payload else bits
    for options in (
        {},
        {"size": 400, **ALL},
        {"size": 40, "fill_value": 7, "return_counts": True},
        {"size": 3, "equal_nan": False, "return_inverse": True},
    ):
        same("unique", x, of=of, **options)


def test_unique_of_a_vector():
    x = rows("float64", 41)[1]
    same("unique", x, axis=0, **ALL)
    same("unique", x, axis=-1, equal_nan=False)
    same("unique", x > 0)
    same("unique", x, size=0)
    assert xnp.unique([2, 1, 2]).tolist() == [1, 2]


def test_what_unique_leaves_to_jax():
    x = rows("int8", 20)
    for case in (x[:0], x[1] + 1j, jnp.float32(3)):
        same("unique", case)
    same("unique", x, axis=1)
    with pytest.raises(ValueError, match="fill_value must be specified"):
        xnp.unique(x[:0], size=3)
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(xnp.unique)(x)


def test_isin():
    x, k = rows("float32", 300)[1], rows("int16", 300)[1]
    for args, options in [
        ((x, x[::9]), {"invert": True}),
        ((x, x[::9]), {"method": "sort"}),
        ((x, k), {}),  # promoted
        ((k, 3), {}),  # a weak scalar does not promote
        ((k, 3.5), {}),
        ((x[:0], x), {}),
        ((x, x[:0]), {"invert": True}),
        ((x + 1j, x[:3]), {}),  # left to JAX
        ((2, k), {}),
    ]:
        same("isin", *args, **options)
    assert xnp.isin([1, 2], [2]).tolist() == [False, True]
    # On threads.
    many = np.random.default_rng(0).integers(0, 10_000, 200_000) << 32
    got = xnp.isin(many, many[:999])
    np.testing.assert_array_equal(got, np.isin(many, many[:999]))


@pytest.mark.parametrize("shape", [(300,), (3, 5, 8), (0, 4)])
def test_nonzero(shape):
    x = np.random.default_rng(0).integers(0, 3, shape)
    same("nonzero", x)
    for size, fill in [(0, 0), (40, -7), (500, 2.5), (500, tuple(shape))]:
        same("nonzero", x, size=size, fill_value=fill)
    same("nonzero", x, size=500)
    same("nonzero", x, size=500, fill_value=True)


def test_errors_of_nonzero():
    with pytest.raises(ValueError, match="0d arrays"):
        xnp.nonzero(3)
    with pytest.raises(ValueError, match="expected a number or a tuple of 1"):
        xnp.nonzero([1, 2], size=2, fill_value=(1, 2))
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(xnp.nonzero)(jnp.ones(3))


def test_without_x64():
    with jax.enable_x64(False):
        same("unique", rows("float32", 40)[5], **ALL)
        same("nonzero", jnp.arange(5) % 2, size=3)
        assert xnp.nonzero(jnp.arange(5), size=3)[0].dtype == np.int32


def test_without_promotion():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    functions = (
        lambda: xnp.unique(x, size=20, fill_value=7, **ALL),
        lambda: xnp.isin(jnp.arange(90), jnp.arange(60)),
        lambda: xnp.nonzero(x, size=20, fill_value=-1),
    )
    want = [f() for f in functions]
    jax.clear_caches()
    strict = jax.numpy_dtype_promotion("strict")
    with strict, jax.numpy_rank_promotion("raise"):
        assert bits([f() for f in functions]) == bits(want)


def test_transformations():
    k = np.random.default_rng(0).integers(0, 999, (4, 6, 300))
    x = rows("float32", 41)[1:3]

    def every(numpy):
        unique = functools.partial(numpy.unique, size=9, return_counts=True)

        def of_rows(f):
            return jax.vmap(jax.vmap(f, (0, None)), (1, None), 1)

        def loss(x):
            found = numpy.nonzero(x > 0, size=3)[0]
            return (x[found] ** 2).sum() + (unique(x)[0] ** 2)[:4].sum()

        @jax.jit
        def results(k, x):
            return (
                of_rows(numpy.isin)(k, k[0, 0, ::10]),
                jax.vmap(numpy.isin)(k[0], k[0, :, ::10]),
                of_rows(lambda x, n: numpy.nonzero(x - n, size=9)[0])(k, 3),
                jax.vmap(unique)(x),
                jax.vmap(jax.grad(loss))(jnp.nan_to_num(x)),
            )

        return results(k, x)

    assert bits(every(xnp)) == bits(every(jnp))


@pytest.mark.parametrize("name", ["isin", "nonzero", "unique"])
def test_programs_call_the_handler(name):
    function, off, target = {
        "isin": (lambda x: xnp.isin(x, x[:5]), ["isin"], "isin"),
        "nonzero": (lambda x: xnp.nonzero(x, size=2), ["nonzero"], "nonzero"),
        "unique": (
            lambda x: xnp.unique(x, size=3, **ALL),
            ["sort", "sort_pairs"],
            "sort",
        ),
    }[name]
    x, call = jnp.arange(900.0), f"@xla_ffi_accelerate.{target}("

    def program(x):
        return jax.jit(lambda x: function(x)).lower(x).as_text()

    assert call in program(x) and "stablehlo.sort" not in program(x)
    with xla_ffi_kit.use_reference(*off):
        assert call not in program(x)
    # As fast, or faster, without.
    assert name != "isin" or call not in program(x[:50])


FUNCTIONS = {
    "isin": lambda numpy, x: numpy.isin(x, x.ravel()[::5]),
    "nonzero": lambda numpy, x: numpy.nonzero(x, size=9),
    "unique": lambda numpy, x: numpy.unique(x, size=8) if x.size else x,
}


@functools.cache
def compiled(name, shape, dtype):
    """The package's function and JAX's."""
    x = jax.ShapeDtypeStruct(shape, dtype)
    of = [functools.partial(FUNCTIONS[name], numpy) for numpy in (xnp, jnp)]
    return [jax.jit(f).lower(x).compile() for f in of]


@hypothesis.settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(
    st.sampled_from(sorted(FUNCTIONS)),
    st.sampled_from(DTYPES),
    st.sampled_from([(0,), (1,), (40,), (700,), (40, 3)]),
    st.integers(0, 2**32 - 1),
)
def test_random_arrays(name, dtype, shape, seed):
    """Of special values and small numbers, some of them again and again."""
    kind, random = jnp.dtype(dtype), np.random.default_rng(seed)
    values = np.concatenate([specials(kind), np.arange(9).astype(kind)])
    few = random.permutation(values)[: random.integers(1, len(values) + 1)]
    x = random.choice(few, shape)
    got, want = (f(x) for f in compiled(name, shape, kind))
    assert bits(got) == bits(want)
