"""accelerate: arrays drawn at random, bit for bit as without the kit."""

import functools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import DTYPES, ORDERS, bits, specials
from ci_cases import examples
from hypothesis import strategies as st

import xla_ffi_accelerate

jax.config.update("jax_enable_x64", True)

# Few, because every one is compiled: empty, one element, one line, lines.
SHAPES = [(0,), (1,), (3, 0), (40,), (700,), (2, 33), (40, 3)]


def cumsum(x):
    if x.dtype == bool:
        x = x.astype(np.int32)
    y = jax.lax.cumsum(x, x.ndim - 1)
    # Of two NaNs that meet, either may stay.
    return jnp.where(jnp.isnan(y), y.dtype.type(0), y), jnp.isnan(y)


def without_signs(x):
    """Of zeros and NaNs: an unstable sort has them in any order."""
    return jnp.where(x == 0, 0, jnp.where(jnp.isnan(x), jnp.nan, x))


FUNCTIONS = {
    "sort": jnp.sort,
    "sort, axis 0": lambda x: jax.lax.sort(x, dimension=0),
    "sort, descending": lambda x: jnp.sort(x, descending=True),
    "argsort": jnp.argsort,
    "sort by two keys": lambda x: jax.lax.sort(
        (x, x[::-1], jax.lax.iota(np.int32, x.size).reshape(x.shape)),
        num_keys=2,
    ),
    "sort by itself": lambda x: jax.lax.sort((x, x, x), num_keys=2),
    "top_k of none": lambda x: jax.lax.top_k(x, 0),
    "top_k": lambda x: jax.lax.top_k(x, (x.shape[-1] + 1) // 2),
    "top_k of all": lambda x: jax.lax.top_k(x, x.shape[-1]),
    "argmax": lambda x: jnp.argmax(x, -1) if x.size else x,
    "argmin": lambda x: jnp.argmin(x, 0) if x.size else x,
    "cumsum": cumsum,
    "unique": lambda x: jnp.unique(x, size=8) if x.size else x,
    "nonzero": lambda x: jnp.nonzero(x, size=9),
    "median": lambda x: without_signs(jnp.median(x)) if x.size else x,
    "unstable sort": lambda x: without_signs(jax.lax.sort(x, is_stable=False)),
}
# Functions of the kit, and JAX's.
TWINS = {
    "isin": (
        lambda x: xla_ffi_accelerate.numpy.isin(x, x.ravel()[::5]),
        lambda x: jnp.isin(x, x.ravel()[::5]),
    ),
    "nonzero of the kit": (
        lambda x: xla_ffi_accelerate.numpy.nonzero(x, size=9),
        lambda x: jnp.nonzero(x, size=9),
    ),
    "unique of the kit": (
        lambda x: xla_ffi_accelerate.numpy.unique(x, size=8) if x.size else x,
        lambda x: jnp.unique(x, size=8) if x.size else x,
    ),
}


@functools.cache
def compiled(name, shape, dtype, donate):
    """With the kit, its operand donated or not, and without."""
    twins = TWINS.get(name) or (FUNCTIONS[name],) * 2
    x = jax.ShapeDtypeStruct(shape, dtype)
    both = []
    settings = (xla_ffi_accelerate.enabled(), xla_ffi_accelerate.disabled())
    for f, setting in zip(twins, settings, strict=True):
        with setting:
            argnums = (0,) if donate and setting is settings[0] else ()
            f = jax.jit(f, donate_argnums=argnums)
            both.append(f.lower(x).compile())
    return both


@st.composite
def arrays(draw):
    """Special values and small numbers, in orders that sorts fear."""
    dtype = jnp.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(st.sampled_from(SHAPES))
    size = int(np.prod(shape))
    values = np.concatenate([specials(dtype), np.arange(9).astype(dtype)])
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    few = draw(st.integers(1, len(values)))
    chosen = random.permutation(values)[:few]
    x = chosen[random.integers(0, few, size)]
    order = draw(st.sampled_from(["random", *ORDERS]))
    if order != "random":
        x = np.sort(x)[ORDERS[order](size)]
    return x.reshape(shape)


@hypothesis.settings(
    max_examples=examples(250),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(
    st.sampled_from([*FUNCTIONS, *TWINS]), arrays(), st.booleans()
)
@hypothesis.example("sort", np.full(700, -np.nan, np.float32), True)
@hypothesis.example("median", np.full(40, np.nan), False)
@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_same_bits(name, x, donate):
    with_kit, without = compiled(name, x.shape, x.dtype, donate)
    assert bits(with_kit(jnp.array(x))) == bits(without(x))
