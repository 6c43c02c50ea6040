"""The examples of the FFI's features, on CUDA: see gpu_ops_test.py.

Without a GPU they are lowered and compiled to nothing.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gpu_data import DEVICE, PLATFORM

import xla_ffi_kit

xla_ffi_kit.register(
    xla_ffi_kit.HandlerLibrary(
        pathlib.Path(xla_ffi_kit.__file__).parent / "_lib" / "cuda_examples.so"
    )
)

NEEDS_GPU = pytest.mark.skipif(PLATFORM == "cpu", reason="handlers of a GPU")
S32 = np.int32


def array(dtype, *shape):
    return jax.ShapeDtypeStruct(shape, dtype)


def call(name, results, **options):
    return jax.ffi.ffi_call(f"examples.{name}", results, **options)


def add_one(x):
    result = (array(S32, *x.shape), array(np.bool_))
    return call("add_one", result, input_output_aliases={0: 0})(x)


def counter():
    return call("counter", array(S32), has_side_effect=True)(start=S32(10))


def scalars():
    numbers = {
        "s8": np.int8(-1),
        "s16": np.int16(2),
        "s32": S32(3),
        "s64": np.int64(4),
        "u8": np.uint8(5),
        "u16": np.uint16(6),
        "u32": np.uint32(7),
        "u64": np.uint64(8),
        "f32": np.float32(9.5),
        "f64": np.float64(10.5),
    }
    result = array(np.float64, 12)
    return call("scalars", result)(pred=True, text="eleven", **numbers)


def scratch():
    return call("scratch", array(S32))(count=S32(3), size=np.int64(1 << 20))


def stages():
    return call("stages", array(S32, 4), has_side_effect=True)()


def table(index):
    result = array(np.float64, *index.shape)
    return call("table", result)(index, table=np.array([0.5, 1.5, 2.5]))


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (add_one, [array(S32, 4)]),
        (counter, []),
        (scalars, []),
        (scratch, []),
        (stages, []),
        (table, [array(S32, 4)]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_it_lowers(function, operands):
    lowered = (
        jax.jit(function).trace(*operands).lower(lowering_platforms=("cuda",))
    )
    assert f"@examples.{function.__name__}(" in lowered.as_text()


@NEEDS_GPU
@pytest.mark.parametrize("is_donated", [False, True])
def test_add_one_is_in_place_values(is_donated):
    x = jax.device_put(np.arange(5, dtype=S32), DEVICE)
    donated = (0,) if is_donated else ()
    y, in_place = jax.jit(add_one, donate_argnums=donated)(x)
    np.testing.assert_array_equal(y, [1, 2, 3, 4, 5])
    assert in_place and x.is_deleted() == is_donated


@NEEDS_GPU
def test_state_counts_for_each_executable_values():
    first, second = jax.jit(lambda: counter()), jax.jit(lambda: counter())
    assert [int(first()) for _ in range(3)] == [10, 11, 12]
    assert int(second()) == 10


@NEEDS_GPU
def test_attributes_arrive_values():
    want = [1, -1, 2, 3, 4, 5, 6, 7, 8, 9.5, 10.5, 6]
    np.testing.assert_array_equal(jax.jit(scalars)(), want)


@NEEDS_GPU
def test_there_is_scratch_memory_values():
    assert int(jax.jit(scratch)()) == 3


@NEEDS_GPU
def test_all_stages_run():
    function = jax.jit(stages)
    for run in range(1, 4):
        instantiate, prepare, initialize, execute = map(int, function())
        assert instantiate == 1 and execute == run
        assert prepare >= 1 and initialize >= 1


@NEEDS_GPU
def test_a_table_stays_on_the_device_values():
    function = jax.jit(table)
    for seed in range(3):
        index = np.random.default_rng(seed).integers(-1, 4, 50, S32)
        want = np.array([np.nan, 0.5, 1.5, 2.5, np.nan])[index + 1]
        got = function(jnp.asarray(index))
        np.testing.assert_array_equal(np.asarray(got), want)
