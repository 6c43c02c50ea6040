"""The three programs give the same results with and without the kit."""

import compare
import jax
import numpy as np
import pytest
import replay_buffer

import xla_ffi_kit


@pytest.mark.parametrize("name", compare.PROGRAMS)
def test_same_results(name, capsys):
    compare.compare(name, short=True, rounds=1)
    assert "same results" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("particle filter", ["cumulative", "sort"]),
        ("replay buffer", ["cumulative", "argmax"]),
        ("mixture of experts", ["cumulative", "sort", "top_k"]),
    ],
)
def test_programs_call_the_handlers(name, targets):
    module = compare.PROGRAMS[name]
    args = module.arguments(True)
    with xla_ffi_kit.accelerate():
        text = jax.jit(module.program).lower(*args).as_text()
    for target in targets:
        assert f"xla_ffi_kit.{target}" in text


def test_the_replay_buffer_learns():
    features, returns, priority, key = replay_buffer.arguments(True)
    weights = replay_buffer.program(features, returns, priority, key)[0]
    before = np.mean(np.square(returns))
    after = np.mean(np.square(returns - features @ weights))
    assert after < before / 2
