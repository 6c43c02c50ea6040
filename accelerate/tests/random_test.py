"""accelerate("random"): every bit that of JAX without the kit."""

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
)

import functools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import bits, check_equal
from ci_cases import examples
from hypothesis import strategies as st
from jax.extend.random import threefry_2x32
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import xla_ffi_accelerate
import xla_ffi_kit

jax.config.update("jax_enable_x64", True)

KEY = jax.random.key(7)
KEYS = jax.random.split(KEY, 70)
SHAPES = [
    (),
    (1,),
    (0,),
    (9,),
    (47,),
    (48,),
    (511,),
    (513,),
    (3, 0),
    (5, 7, 31),
]


@pytest.fixture(params=[True, False], ids=["partitionable", "not"])
def partitionable(request):
    with jax.threefry_partitionable(request.param):
        yield request.param


def drawn(width, shape):
    return jax.jit(lambda key: jax.random.bits(key, shape, f"uint{width}"))


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_bits(partitionable, width):
    cases = {f"{s}": (drawn(width, s), (KEY,)) for s in SHAPES}
    # Above the size that threads share, odd in words and in bytes.
    long = [(65_537,), (3 * 65_537,)]
    check_equal(cases | {f"{s}": (drawn(width, s), (KEY,)) for s in long})


@pytest.mark.parametrize("width", [8, 32, 64])
def test_batched_keys(partitionable, width):
    cases = {}
    for shape in ((), (3,), (47,), (50,), (600,)):
        f = jax.jit(jax.vmap(drawn(width, shape)))
        cases[f"{shape}"] = f, (KEYS,)
        cases[f"{shape}, nested"] = jax.jit(jax.vmap(f)), (KEYS.reshape(7, 10),)
    check_equal(cases)


def test_keys(partitionable):
    data = jax.random.key_data(KEYS)
    cases = {
        f"split, {n}": (jax.jit(lambda k, n=n: key_data(split(k, n))), (KEY,))
        for n in (1, 2, 9, 1000, (3, 5))
    }
    split_all = jax.jit(jax.vmap(lambda k: key_data(split(k, 3))))
    fold = jax.vmap(lambda i: key_data(jax.random.fold_in(KEY, i)))
    hashed = jax.jit(lambda k, x: threefry_2x32((k[0], k[1]), x))
    check_equal(
        cases
        | {
            "split of many": (split_all, (KEYS,)),
            "fold_in": (jax.jit(fold), (np.arange(300),)),
            "raw keys": (jax.jit(jax.vmap(jax.random.split)), (data,)),
            "hash": (hashed, (data[0], np.arange(777, dtype=np.uint32))),
        }
    )


split, key_data = jax.random.split, jax.random.key_data


def everything(key):
    """A sample of every distribution, with few programs."""
    r, n = jax.random, (300,)
    return {
        "uniform": r.uniform(key, n),
        "uniform f16": r.uniform(key, n, jnp.float16),
        "uniform bf16": r.uniform(key, n, jnp.bfloat16),
        "uniform f64": r.uniform(key, n, jnp.float64),
        "normal": r.normal(key, n, jnp.float32),
        "complex": r.normal(key, n, jnp.complex64),
        "randint": r.randint(key, n, -5, 1000, jnp.int16),
        "randint 64": r.randint(key, n, 0, 1 << 40),
        "bernoulli": r.bernoulli(key, 0.3, n),
        "gamma": r.gamma(key, 2.5, n, jnp.float32),
        "beta": r.beta(key, 2.5, 0.5, n, jnp.float32),
        "categorical": r.categorical(key, jnp.zeros((40, 7))),
        "poisson": r.poisson(key, 30.0, n),
        "poisson of few": r.poisson(key, 2.0, n),
        "permutation": r.permutation(key, 500),
        "choice": r.choice(key, 500, (20,), p=jnp.arange(500) / 124_750),
        "dirichlet": r.dirichlet(key, jnp.ones(4), (9,)),
        "rademacher": r.rademacher(key, n),
        "truncated": r.truncated_normal(key, -1, 2, n, jnp.float32),
        "orthogonal": r.orthogonal(key, 4),
    }


def test_distributions(partitionable):
    check_equal({"all": (jax.jit(everything), (KEY,))})


def test_programs(partitionable):
    def walk(key, _):
        key, sub = split(key)
        return key, jax.random.normal(sub, (20,)).sum()

    def rejected(key):
        def again(state):
            return state[1] < 2.5

        def draw(state):
            key, sub = split(state[0])
            return key, jax.random.normal(sub)

        return jax.lax.while_loop(again, draw, (key, 0.0))[1]

    def loss(x):
        keep = jax.random.bernoulli(KEY, 0.9, x.shape)
        return (jnp.where(keep, x, 0) ** 2).sum()

    check_equal(
        {
            "scan": (
                lambda k: key_data(jax.lax.scan(walk, k, None, 9)[0]),
                (KEY,),
            ),
            "while": (jax.jit(jax.vmap(rejected)), (KEYS[:9],)),
            "grad": (jax.jit(jax.grad(loss)), (np.ones((40, 30)),)),
            "eager": (lambda k: jax.random.bits(k, (100,)), (KEY,)),
        }
    )


def test_programs_call_the_handlers():
    with xla_ffi_accelerate.enabled("random"):
        text = drawn(32, (100,)).lower(KEY).as_text()
        assert "@xla_ffi_accelerate.random_bits(" in text
        text = jax.jit(lambda k: key_data(split(k, 9))).lower(KEY).as_text()
        assert "@xla_ffi_accelerate.threefry2x32(" in text


@pytest.mark.parametrize("size", [3, 8, 16, 100, 200])
def test_in_loops(size):
    """Few words are hashed in place, but not outside of the loop."""
    draw = drawn(32, (size,))  # lowered once for each

    def both(key):
        return draw(key), jax.lax.scan(step, key, None, 3)[1]

    def step(key, _):
        return key, (draw(key), draw(key) + 1)

    check_equal({"both": (both, (KEY,))})
    with xla_ffi_accelerate.enabled("random"):
        text = jax.jit(both).lower(KEY).as_text()
    # Of 100 words, XLA's own hash is faster since jax 0.12.
    is_called = size == 200 or size == 100 and jax.__version_info__ < (0, 12)
    assert text.count("@xla_ffi_accelerate.random_bits(") == 1 + is_called
    assert ("stablehlo.shift_left" in text) != is_called
    is_own = size == 100 and not is_called
    assert ("while" in text.replace("stablehlo.while", "", 1)) == is_own


def test_other_generators_are_left_to_jax():
    key = jax.random.key(3, impl="rbg")
    with xla_ffi_accelerate.enabled("random"):
        text = drawn(32, (100,)).lower(key).as_text()
    assert "random_bits" not in text.replace("jit_", "")
    assert "stablehlo.rng_bit_generator" in text


def test_too_many_words_are_left_to_jax():
    with (
        jax.threefry_partitionable(False),
        xla_ffi_accelerate.enabled("random"),
    ):
        for size, expected in ((2**32 - 3, True), (2**32, False)):
            text = drawn(32, (size,)).lower(KEY).as_text()
            assert ("xla_ffi_accelerate.random_bits" in text) == expected, size


@pytest.mark.parametrize("size", [5, 1000])
def test_exported(partitionable, size):
    want = bits(drawn(32, (size,))(KEY))
    with xla_ffi_accelerate.enabled("random"):
        exported = jax.export.export(drawn(32, (size,)))(KEY)
    assert "@xla_ffi_accelerate." not in exported.mlir_module()
    assert "stablehlo.while" not in exported.mlir_module()
    assert bits(exported.call(KEY)) == want


def test_exported_with_a_symbolic_size():
    def f(x):
        return x + jax.random.uniform(KEY, x.shape)

    (n,) = jax.export.symbolic_shape("n")
    x = np.zeros(90)
    want = bits(jax.jit(f)(x))
    with xla_ffi_accelerate.enabled("random"):
        shape = jax.ShapeDtypeStruct((n,), x.dtype)
        exported = jax.export.export(jax.jit(f))(shape)
    assert bits(exported.call(x)) == want


@pytest.mark.parametrize("axis_type", [AxisType.Auto, AxisType.Explicit])
def test_each_device_draws_its_part(axis_type):
    if axis_type == AxisType.Explicit and jax.__version_info__ < (0, 10):
        pytest.skip("JAX's own code fails: its lowering has another mesh")
    mesh = jax.make_mesh((4,), ("i",), axis_types=(axis_type,))
    sharding = NamedSharding(mesh, P("i"))
    keys = jax.device_put(KEYS[:8], sharding)

    def f(key, keys):
        many = jax.random.normal(key, (64, 3))
        many = jax.lax.with_sharding_constraint(many, sharding)
        return many, jax.vmap(lambda k: jax.random.uniform(k, (5,)))(keys)

    if axis_type == AxisType.Explicit:

        def f(key, keys):  # noqa: F811
            return jax.vmap(lambda k: jax.random.uniform(k, (5,)))(keys)

    key = jax.device_put(KEY, NamedSharding(mesh, P()))
    xla_ffi_accelerate.disable()
    want = jax.jit(f)(key, keys)
    with xla_ffi_accelerate.enabled("random"):
        compiled = jax.jit(f).lower(key, keys).compile()
        text = compiled.as_text()
        got = compiled(key, keys)
    for word in (
        "all-gather",
        "all-reduce",
        "all-to-all",
        "xla_ffi_accelerate.",
    ):
        assert word not in text
    assert bits(got) == bits(want)


def test_shard_map_calls_the_handler():
    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    keys = jax.device_put(KEYS[:4], NamedSharding(mesh, P("i")))

    def f(keys):
        return jax.vmap(lambda k: jax.random.bits(k, (30,)))(keys)

    f = jax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    xla_ffi_accelerate.disable()
    want = bits(jax.jit(f)(keys))
    with xla_ffi_accelerate.enabled("random"):
        compiled = jax.jit(f).lower(keys).compile()
    assert "xla_ffi_accelerate.random_bits" in compiled.as_text()
    assert bits(compiled(keys)) == want


def call(keys, result, **attributes):
    xla_ffi_kit.register(*xla_ffi_accelerate.LIBRARIES)
    f = jax.ffi.ffi_call("xla_ffi_accelerate.random_bits", result)
    return jax.block_until_ready(f(keys, **attributes))


@pytest.mark.parametrize(
    "keys, shape, dtype, message",
    [
        ((3,), (5,), "uint32", r"operand keys: expected shape \(\.\.\., 2\)"),
        ((4, 2), (3, 5), "uint32", r"result bits: expected first axes \(4\)"),
        (
            (4, 2),
            (),
            "uint32",
            r"result bits: expected first axes .*, got shape \(\)",
        ),
        (
            (2,),
            (5,),
            "int32",
            r"one of the dtypes u8, u16, u32, u64, got dtype s32",
        ),
    ],
)
def test_the_handler_refuses(keys, shape, dtype, message):
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        call(
            np.zeros(keys, np.uint32),
            jax.ShapeDtypeStruct(shape, dtype),
            partitionable=np.bool_(True),
        )


@functools.cache
def compiled(width, shape, batch, is_partitionable):
    """With the kit, and without."""
    key = jax.ShapeDtypeStruct((*batch, 2), np.uint32)
    f = drawn(width, shape)
    for _ in batch:
        f = jax.vmap(f)
    both = []
    with jax.threefry_partitionable(is_partitionable):
        for setting in (
            xla_ffi_accelerate.enabled("random"),
            xla_ffi_accelerate.disabled(),
        ):
            with setting:
                both.append(jax.jit(lambda k: f(k)).lower(key).compile())
    return both


@hypothesis.settings(
    max_examples=examples(60), deadline=None, derandomize=True, database=None
)
@hypothesis.given(
    st.sampled_from([8, 16, 32, 64]),
    st.sampled_from(SHAPES),
    st.sampled_from([(), (3,), (2, 5)]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_same_bits(width, shape, batch, is_partitionable, seed):
    words = np.random.default_rng(seed).integers(0, 2**32, (*batch, 2))
    keys = words.astype(np.uint32)
    kit, own = compiled(width, shape, batch, is_partitionable)
    assert bits(kit(keys)) == bits(own(keys))
