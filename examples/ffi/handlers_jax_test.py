"""The handlers of this folder, called from JAX, one test or more for each."""

import ctypes
import gc
import os
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit

jax.config.update("jax_enable_x64", True)

LIBRARY = xla_ffi_kit.HandlerLibrary(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "ffi_examples.so")
)
# Types first, then handlers; what this does is in docs/tutorial/ch2_loading.md.
xla_ffi_kit.register(LIBRARY)

F32, F64, S32 = np.float32, np.float64, np.int32


def call(name, results, **options):
    """`jax.ffi.ffi_call` of one example."""
    return jax.ffi.ffi_call(f"examples.{name}", results, **options)


def array(dtype, *shape):
    """The type of a result."""
    return jax.ShapeDtypeStruct(shape, dtype)


# --- Operands and results -----------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["complex64", "complex128", "float16", "int8"]
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 2)])
def test_any_buffer(dtype, shape):
    x = (np.arange(np.prod(shape)) - 3).astype(dtype).reshape(shape)
    if x.dtype.kind == "c":
        x = x * (1 + 2j)
    x = x.astype(dtype)
    y = call("real_part", array(x.real.dtype, *shape))(x)
    np.testing.assert_array_equal(y, x.real)


def test_any_buffer_of_small_floats():
    x = jnp.arange(4, dtype=jnp.float8_e4m3fn)
    y = call("real_part", array(x.dtype, 4))(x)
    np.testing.assert_array_equal(y.astype(F32), np.arange(4))


def test_typed_buffers():
    a, x = np.arange(6, dtype=F32).reshape(2, 3), np.ones(3, F32)
    y = call("matvec", array(F32, 2))(F32(2), a, x)
    np.testing.assert_array_equal(y, [6, 24])
    with pytest.raises(Exception, match="Wrong buffer rank: expected 2"):
        call("matvec", array(F32, 2))(F32(2), x, x)
    with pytest.raises(Exception, match="Wrong buffer dtype: expected F32"):
        call("matvec", array(F32, 2))(F32(2), a, x.astype(F64))


def test_layout():
    a = np.arange(6, dtype=F32).reshape(2, 3)
    sums = call("column_sums", array(F32, 3), input_layouts=[(1, 0)])
    np.testing.assert_array_equal(jax.jit(sums)(a), [3, 5, 7])
    assert "f32[2,3]{0,1}" in jax.jit(sums).lower(a).compile().as_text()
    np.testing.assert_array_equal(jax.jit(lambda a: sums(a.T))(a.T), [3, 5, 7])
    # Without the layout the handler reads rows as columns.
    wrong = call("column_sums", array(F32, 3))
    np.testing.assert_array_equal(wrong(a), [1, 5, 9])


def test_optional():
    x = np.arange(3, dtype=F32)
    y = array(F32, 3)
    np.testing.assert_array_equal(call("scale", y)(x), x)
    np.testing.assert_array_equal(call("scale", y)(x, F32(3)), 3 * x)
    got, total = call("scale", (y, array(F32)))(x, F32(3))
    np.testing.assert_array_equal(got, 3 * x)
    assert total == 9


def test_variadic():
    xs = [
        np.arange(2, dtype=F32),
        np.ones((2, 2), F32),
        np.arange(3, dtype=S32),
    ]
    like = tuple(array(x.dtype, *x.shape) for x in reversed(xs))
    ys = call("reverse_operands", like)(*xs)
    for y, x in zip(ys, [xs[2], xs[1], -xs[0]], strict=True):
        np.testing.assert_array_equal(y, x)
    with pytest.raises(Exception, match="got 1 operands and 3 results"):
        call("reverse_operands", like)(xs[0])


def test_token():
    stamp = call("stamp", (jax.core.abstract_token, array(S32)))

    def three():
        token, ticks = jax.lax.create_token(), []
        for _ in range(3):
            token, tick = stamp(token)
            ticks.append(tick)
        return ticks

    first, second, third = jax.jit(three)()
    assert first < second < third


def test_alias():
    def add(x, **options):
        result = array(S32, *x.shape), array(bool)
        return call("add_one", result, **options)(x)

    def aliased(x):
        return add(x, input_output_aliases={0: 0})

    x = jnp.arange(4, dtype=S32)
    y, in_place = add(x)
    assert not in_place
    y, in_place = jax.jit(aliased)(x)
    assert in_place  # in a copy of x
    np.testing.assert_array_equal(x, np.arange(4))
    np.testing.assert_array_equal(y, np.arange(4) + 1)
    where = x.unsafe_buffer_pointer()
    y, _ = jax.jit(aliased, donate_argnums=0)(x)
    assert y.unsafe_buffer_pointer() == where


def test_tuple_result_as_memory_to_work_in():
    xs = [np.arange(n, dtype=F32) for n in (1, 4, 101)]
    sums = call("tuple_sums", (array(F32, 3), array(F32, 51)))(*xs)[0]
    np.testing.assert_array_equal(sums, [x.sum() for x in xs])
    with pytest.raises(Exception, match="at least half"):
        call("tuple_sums", (array(F32, 3), array(F32, 50)))(*xs)


# --- Attributes ---------------------------------------------------------------

SCALARS = {
    "pred": np.bool_(True),
    "s8": np.int8(-8),
    "s16": np.int16(-16),
    "s32": S32(-32),
    "s64": np.int64(-64),
    "u8": np.uint8(8),
    "u16": np.uint16(16),
    "u32": np.uint32(32),
    "u64": np.uint64(64),
    "f32": F32(0.5),
    "f64": F64(0.25),
    "text": "hello",
}


def test_scalars():
    y = call("scalars", array(F64, 12))(**SCALARS)
    expected = [1, -8, -16, -32, -64, 8, 16, 32, 64, 0.5, 0.25, 5]
    np.testing.assert_array_equal(y, expected)


def test_scalars_that_do_not_fit():
    def error(**changes):
        with pytest.raises(Exception) as caught:
            call("scalars", array(F64, 12))(**{**SCALARS, **changes})
        return str(caught.value)

    # Not 0.5: JAX takes attributes that are equal for the same.
    wrong = error(f32=F64(0.75))
    assert "Wrong scalar data type: expected F32 but got F64" in wrong
    assert "Wrong number of attributes: expected 12" in error(more=1)
    assert "Wrong attribute type" in error(text=np.int64(1))


def test_arrays():
    kinds = "s8 s16 s32 s64 u8 u16 u32 u64 f32 f64".split()
    dtypes = "i1 i2 i4 i8 u1 u2 u4 u8 f4 f8".split()
    arrays = {
        kind: np.arange(i + 1).astype(dtype)
        for i, (kind, dtype) in enumerate(zip(kinds, dtypes, strict=True))
    }
    y = call("arrays", array(F64, 10))(**arrays)
    np.testing.assert_array_equal(y, [a.sum() for a in arrays.values()])


def test_dictionary():
    x = np.arange(3, dtype=F64)
    polynomial = call("polynomial", array(F64, 3))
    np.testing.assert_array_equal(polynomial(x, x0=1.0, x2=2.0), 1 + 2 * x**2)
    y = polynomial(x, x1=F64(1), options={"shift": F64(1)})
    np.testing.assert_array_equal(y, x + 1)
    with pytest.raises(Exception, match="attribute y1: expected x<k>"):
        polynomial(x, y1=F64(1))


def test_nested_dictionary():
    # jax.ffi.ffi_call cannot hash one; FfiOp passes it on.
    op = xla_ffi_kit.FfiOp(
        "examples.polynomial",
        lambda x, *, x1, options: x1 * x,
        kernel_axes=1,
        attributes={
            "x1": F64,
            "options": {"shift": F64, "output": {"scale": F64}},
        },
        libraries=[LIBRARY],
    )
    x = np.arange(3, dtype=F64)
    y = op(x, x1=1.0, options={"shift": 1.0, "output": {"scale": 10.0}})
    np.testing.assert_array_equal(y, 10 * (x + 1))


def test_structs():
    x = np.array([1, 5, 3], F64)
    window = call("window", array(F64, 3))

    def run(kind, pad):
        size = {"size": np.int64(2), "edge": F64(7)}
        return window(x, window=size, kind=np.uint8(kind), pad=pad)

    np.testing.assert_array_equal(run(0, F64(9)), [3, 4, 6])
    np.testing.assert_array_equal(run(1, "edge"), [5, 5, 7])
    np.testing.assert_array_equal(run(2, F64(0)), [1, 3, 0])
    with pytest.raises(Exception, match="a kind from 0 to 2"):
        run(3, "edge")
    with pytest.raises(Exception, match="any of the variant types"):
        run(0, np.int32(1))


class Table(ctypes.Structure):
    _fields_ = [
        ("values", ctypes.POINTER(ctypes.c_double)),
        ("size", ctypes.c_int64),
    ]


def test_pointer():
    values = (ctypes.c_double * 3)(10, 20, 30)
    table = Table(values, 3)
    address = np.int64(ctypes.addressof(table))
    lookup = call("lookup", array(F64, 2))
    y = lookup(np.array([2, 0], S32), table=address)
    np.testing.assert_array_equal(y, [30, 10])
    with pytest.raises(Exception, match="indices 0 to 2, got 3"):
        lookup(np.array([3, 0], S32), table=address)


def test_custom_decoding():
    m = np.arange(4, dtype=F32).reshape(2, 2)
    trace = call("trace", array(F32))
    assert trace(m, unit="metre") == 3
    with pytest.raises(Exception, match="metre or inch, got mile"):
        trace(m, unit="mile")
    with pytest.raises(Exception, match="a square matrix, got 1 x 4"):
        trace(m.reshape(1, 4), unit="metre")


def test_auto_binding():
    x = np.arange(3, dtype=F64)
    y = call("auto_affine", array(F64, 3))(x, slope=F64(2), offset=F64(1))
    np.testing.assert_array_equal(y, 2 * x + 1)
    assert call("auto_sum", array(F64))(a=F64(1), b=F64(2)) == 3
    call("auto_run_id", array(np.int64))().block_until_ready()


# --- Errors -------------------------------------------------------------------

CODES = (
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND "
    "ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION "
    "ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS "
    "UNAUTHENTICATED"
).split()


def test_errors_of_every_code():
    fail = call("fail", array(S32))
    assert fail(code=S32(0), message="") == 0
    for code, name in enumerate(CODES[1:], 1):
        with pytest.raises(jax.errors.JaxRuntimeError) as caught:
            fail(code=S32(code), message=f"message {code}").block_until_ready()
        assert str(caught.value).startswith(f"{name}: message {code}")


def test_exception():
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        call("fail", array(S32))(code=S32(-1), message="thrown")
    assert str(caught.value).startswith("UNKNOWN: XLA FFI call failed: thrown")


# --- State --------------------------------------------------------------------


def make_counter(start):
    """A new executable with a counter of its own."""
    count = call("counter", array(S32), has_side_effect=True)
    return jax.jit(lambda: count(start=S32(start)))


def live_counters():
    gc.collect()
    live = call("live_counters", array(S32), has_side_effect=True)
    return int(jax.jit(lambda: live())())


def test_state_lives_and_dies_with_its_executable():
    before = live_counters()
    first, second = make_counter(10), make_counter(0)
    assert [int(first()) for _ in range(3)] == [10, 11, 12]
    assert [int(second()) for _ in range(2)] == [0, 1]
    assert int(first()) == 13
    assert live_counters() == before + 2
    del first, second
    jax.clear_caches()
    assert live_counters() == before


def test_two_calls_in_one_executable_count_apart():
    count = call("counter", array(S32), has_side_effect=True)
    both = jax.jit(lambda: (count(start=S32(0)), count(start=S32(100))))
    assert [tuple(map(int, both())) for _ in range(2)] == [(0, 100), (1, 101)]


def test_state_from_many_threads():
    counter, seen = make_counter(0), []
    counter()

    def work():
        seen.extend(int(counter()) for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(seen) == list(range(1, 201))


def test_state_that_cannot_be_made():
    with pytest.raises(Exception, match="start: expected a value >= 0, got -1"):
        make_counter(-1)()


def test_random_numbers_without_a_key():
    def make():
        draw = call("random", array(np.float32, 1000), has_side_effect=True)
        return jax.jit(lambda: draw(seed=np.int64(7)))

    one, other = make(), make()
    first, second, third = one(), one(), other()
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, third)
    assert 0 <= first.min() and first.max() < 1
    assert abs(float(first.mean()) - 0.5) < 0.05


def test_stages_that_a_cpu_runs():
    stages = call("stages", array(S32, 4), has_side_effect=True)
    run = jax.jit(lambda: stages())
    np.testing.assert_array_equal(run(), [1, 0, 0, 1])
    np.testing.assert_array_equal(run(), [1, 0, 0, 2])


def test_user_data_is_not_for_jax():
    with pytest.raises(Exception, match="Failed to get user data"):
        call("tag", array(np.int64))().block_until_ready()


# --- Threads and effects ------------------------------------------------------


def test_thread_pool():
    x = np.arange(1_000_000, dtype=F64)
    np.testing.assert_array_equal(
        call("parallel_square", array(F64, x.size))(x), x * x
    )


def test_thread_pool_of_many_calls_at_once():
    square = call("parallel_square", array(F64, 200_000))
    xs = [np.full(200_000, i, F64) for i in range(40)]
    ys = jax.jit(lambda xs: [square(square(x)) for x in xs])(xs)
    for i, y in enumerate(ys):
        assert y[0] == y[-1] == i**4


def test_future():
    x = np.arange(1000, dtype=F64)
    later = call("later", array(F64, x.size))

    @jax.jit
    def chain(x):
        for _ in range(3):
            x = later(x, parts=np.int64(5)) + later(x, parts=np.int64(1))
        return x

    np.testing.assert_array_equal(chain(x), 64 * x)
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        later(x - 999.5, parts=np.int64(2)).block_until_ready()
    assert str(caught.value).startswith(
        "OUT_OF_RANGE: examples.later: operand x"
    )


def test_side_effects_and_their_order():
    log = call("log", array(S32), has_side_effect=True)
    read = call("read_log", (array(S32), array(S32, 8)), has_side_effect=True)
    count = jax.jit(lambda: read())

    @jax.jit
    def program(x):
        y = log(x)
        log(y + 1)  # nobody reads it
        return log(y + 1) + 1  # equal to the last, and not merged with it

    before = int(count()[0])
    assert program(jnp.int32(5)) == 7
    total, last = count()
    assert total == before + 3
    np.testing.assert_array_equal(last[: min(total, 8)][-3:], [5, 6, 6])


def test_calls_without_effects_are_removed_and_merged():
    log = call("log", array(S32))
    read = call("read_log", (array(S32), array(S32, 8)), has_side_effect=True)
    count = jax.jit(lambda: read()[0])
    before = int(count())

    @jax.jit
    def program(x):
        log(x + 1)
        return log(x) + log(x)

    assert program(jnp.int32(5)) == 10
    assert count() == before + 1


# --- Who calls, and with what -------------------------------------------------


def test_run_id_and_device_ordinal():
    ids = call("run_id", (array(np.int64), array(S32)), has_side_effect=True)
    run = jax.jit(lambda: ids() + ids())
    first, second = run(), run()
    assert first[0] == first[2]
    assert first[0] != second[0]
    assert first[1] == first[3] == 0


def test_scratch_is_for_gpus():
    scratch = call("scratch", array(S32))
    given = scratch(count=S32(2), size=np.int64(64))
    assert given == 0


def test_every_handler_asks_for_the_floor():
    assert LIBRARY.api_version == (0, 2)
    assert {t.name for t in LIBRARY.types} == {
        "examples.Counter",
        "examples.Generator",
        "examples.RequestTag",
        "examples.StageCounts",
    }
