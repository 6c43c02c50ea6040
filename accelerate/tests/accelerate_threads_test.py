"""accelerate: settings of threads, nested and left in any order; forks."""

import dataclasses
import functools
import os
import random
import signal
import threading
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import off

from xla_ffi_accelerate import (
    disable,
    disabled,
    enable,
    enabled,
    registry,
    status,
)
from xla_ffi_accelerate.rules.handlers import sorting

X = np.arange(300, dtype=np.int32)[::-1].copy()
FUNCTIONS = {
    "sort": jnp.sort,
    "top_k": lambda x: jax.lax.top_k(x, 9),
    "argmax": jnp.argmax,
    "cumsum": jnp.cumsum,
}
TARGETS = {name: f"@xla_ffi_accelerate.{name}(" for name in FUNCTIONS}
TARGETS["cumsum"] = "@xla_ffi_accelerate.cumulative("


_off = pytest.fixture(autouse=True)(off)


def is_on(name, salt=0):
    """Whether a program that JAX has not seen yet calls the kit."""
    f = jax.jit(lambda x: (FUNCTIONS[name](x), salt))
    return TARGETS[name] in f.lower(X).as_text()


def on():
    return {name for name in FUNCTIONS if is_on(name)}


def run_all(*functions):
    """Runs each on a thread of its own; the first exception of any."""
    errors = []

    def run(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(f,)) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_overlapping_blocks_of_two_threads():
    made, entered, left = (threading.Barrier(3, timeout=60) for _ in range(3))

    def first():
        with enabled("sort"):
            made.wait()
            assert on() == {"sort"}
            entered.wait()
        assert on() == set()
        left.wait()

    def second():
        made.wait()
        with enabled("top_k", "argmax"):
            assert on() == {"top_k", "argmax"}
            entered.wait()
            left.wait()  # the first has left its block
            assert on() == {"top_k", "argmax"}
        assert on() == set()

    def third():
        made.wait()
        entered.wait()
        assert on() == set()
        left.wait()

    run_all(first, second, third)
    assert on() == set() and status() == {}


def test_blocks_in_any_order():
    """Left out of order, entered later than made, and entered again."""
    first, second, third = map(enabled, ("sort", "top_k", "argmax"))
    for block in (first, second, third):
        block.__enter__()
    assert on() == {"sort", "top_k", "argmax"}
    second.__exit__(None, None, None)
    assert on() == {"sort", "argmax"}
    first.__exit__(None, None, None)
    assert on() == {"argmax"}
    third.__exit__(None, None, None)
    assert on() == set() and status() == {}
    made = enabled("sort")
    enable("top_k")
    with made:
        assert on() == {"sort", "top_k"}
    disable()
    off = disabled()
    enable("argmax")
    with off:
        assert on() == set()
    assert on() == {"argmax"}
    disable()
    for _ in range(2):
        with made:
            with made:
                assert on() == {"sort"}
            assert on() == {"sort"}
        assert on() == set()


def test_without_a_block_for_every_thread():
    enable("sort")
    run_all(lambda: enable("top_k"))
    assert on() == {"sort", "top_k"}

    def other():
        assert on() == {"sort", "top_k"}
        with disabled():
            assert on() == set()
        assert on() == {"sort", "top_k"}

    run_all(other)


def test_what_is_on_stays_on_while_it_is_switched_on_again():
    enable("sort")
    ends = threading.Event()

    def switch():
        while not ends.is_set():
            enable("sort")

    def lower():
        try:
            for i in range(30):
                assert is_on("sort", i), i
        finally:
            ends.set()

    run_all(switch, lower)


def test_many_threads_each_with_its_own():
    """Eight threads, hundreds of switches, and as many programs asked for."""
    programs = {n: jax.jit(lambda x, n=n: FUNCTIONS[n](x)) for n in FUNCTIONS}

    def work(seed):
        chosen = random.Random(seed)
        for i in range(45):
            names = chosen.sample(sorted(FUNCTIONS), chosen.randint(1, 3))
            with disabled(), enabled(*names):
                name = chosen.choice(sorted(FUNCTIONS))
                assert set(status()) == set(names)
                text = programs[name].lower(X).as_text()
                assert (TARGETS[name] in text) == (name in names)
                if i % 9 == 0:  # one that no thread has asked for yet
                    assert is_on(name, (seed, i)) == (name in names)

    run_all(*(functools.partial(work, seed) for seed in range(8)))
    assert on() == set()


def test_an_exception_in_a_lowering(monkeypatch):
    def fails(*_):
        raise ZeroDivisionError("by design")

    wrong = dataclasses.replace(sorting.SORT, call=fails)
    with monkeypatch.context() as patch:
        patch.setitem(registry.RULES, "sort", [wrong])
        with enabled("top_k"):
            with pytest.raises(ZeroDivisionError), enabled("sort"):
                is_on("sort")
            assert on() == {"top_k"}
        assert on() == set()
    with enabled("sort"):
        assert on() == {"sort"}


def test_a_program_is_compiled_once_for_each_setting():
    compilations = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: (
            compilations.append(event) if "backend_compile" in event else None
        )
    )
    f = jax.jit(lambda x: jnp.sort(x) + 1)
    for _ in range(3):
        f(X)
        with enabled("sort"):
            f(X)
        run_all(lambda: f(X))
        if not _:
            assert len(compilations) == 2
            compilations.clear()
    enable("sort")
    f(X)
    assert not compilations


def test_a_block_of_one_thread_is_never_the_process_s():
    def check_off():
        assert on() == set()

    block = enabled("sort")
    check_off()
    with (
        block,
        pytest.raises(ValueError, match="enabled: names: 'sorts' is no"),
    ):
        assert on() == {"sort"}
        run_all(check_off)
        enable("top_k")  # within a block: of the block
        assert on() == {"sort", "top_k"}
        enabled("sorts")
    assert on() == set() and status() == {}


def test_a_fork_while_another_thread_switches():
    ends = threading.Event()

    def switch():
        while not ends.is_set():
            enable("sort")
            disable()

    thread = threading.Thread(target=switch)
    thread.start()
    try:
        for _ in range(8):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # threads, and a fork
                child = os.fork()
            if not child:
                signal.alarm(60)
                enable("top_k")
                os._exit(0 if "top_k" in status() else 1)
            assert waited(child) == 0
    finally:
        ends.set()
        thread.join()


def waited(child):
    """A child's exit code; ends it if it hangs."""
    for _ in range(2000):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
