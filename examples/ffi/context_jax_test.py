"""Examples of state, threads, effects and contexts, called from JAX."""

import gc
import threading

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from examples_library import LIBRARY, array, call

pytestmark = pytest.mark.skipif(
    jaxlib.__version__ in ("0.9.1", "0.9.2"),
    reason="these crash on state built for FFI 0.2",
)
jax.config.update("jax_enable_x64", True)

F64, S32 = np.float64, np.int32


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
