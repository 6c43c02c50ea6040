"""Break-even sizes: the model, what is measured, and where it is kept."""

import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xla_ffi_accelerate import _break_even, _calibrate, _processor, enabled
from xla_ffi_accelerate._break_even import SIZES, Cost


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(_processor, "_description", lambda: " avx512f ")
    _break_even._sizes.cache_clear()
    yield
    monkeypatch.undo()
    _break_even._sizes.cache_clear()


def test_the_size_where_both_take_as_long():
    assert Cost(call=300, own=40, rule=10).size() == 10
    assert Cost(call=-5, own=40, rule=10).size() == 0
    assert Cost(call=300, own=10, rule=40).size() == np.inf


def sorts(n):
    x = np.arange(n, dtype=np.int32)
    text = jax.jit(lambda x: jnp.sort(x)).lower(x).as_text()
    return "@xla_ffi_accelerate.sort(" in text


def test_what_is_kept_decides():
    with enabled("sort"):
        assert [sorts(n) for n in (32, 33)] == [False, True]
        kept = {"sort of integers": Cost(call=500, own=10, rule=0)}
        file = _break_even.keep(kept)
        assert [sorts(n) for n in (49, 50)] == [False, True]
        # A measurement that says otherwise altogether is noise.
        _break_even.keep({"sort of integers": Cost(1, 10, 20)})
        assert [sorts(n) for n in (131, 132)] == [False, True]
    assert _break_even.size("top_k") == SIZES["top_k"]
    assert json.loads(file.read_text())["machine"] == _break_even.machine()


def test_avx2_needs_more_integers(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX2")
    with enabled("sort"):
        assert [sorts(n) for n in (95, 96)] == [False, True]


ANOTHER = {"machine": "another", "costs": {"top_k": vars(Cost(1, 2, 1))}}


@pytest.mark.parametrize("content", ["", "[]", json.dumps(ANOTHER), "{}"])
def test_a_file_of_another_machine_or_of_no_use_is_left_out(content):
    file = _break_even.keep({"top_k": Cost(1, 2, 1)})
    assert _break_even.size("top_k") == SIZES["top_k"] // 4
    file.write_text(content)
    _break_even._sizes.cache_clear()
    assert _break_even.size("top_k") == SIZES["top_k"]


@pytest.mark.parametrize("name", SIZES)
def test_every_size_has_a_loop_that_a_rule_covers(name, monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr(_calibrate, "_seconds", lambda _: next(ticks))
    cost = _calibrate._cost(name)
    assert cost is not None or name == "depthwise convolution"
    step, x, size = _calibrate.PROBES[name](4 * SIZES[name])
    assert step(x).shape == x.shape
    # The rule counts as the table does: covered from there, and not below.
    assert size == pytest.approx(4 * SIZES[name], rel=0.1)
    assert _break_even.size(name) == SIZES[name]  # forced no more
