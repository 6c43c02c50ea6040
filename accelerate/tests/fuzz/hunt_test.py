"""The hunter of slow programs: what is slow is found, what is not is none."""

import json
import time

import fuzz_run
import hunt
import pytest


@pytest.fixture(scope="module")
def program():
    """The first program of sort that meets a rule."""
    drawn = (hunt.drawn("sort", seed) for seed in range(50))
    return next(program for program in drawn if fuzz_run.met(program))


def test_what_is_slow_in_each_process_is_printed(monkeypatch, capsys, program):
    compiled = hunt.compiled

    def slower(program):
        pair = compiled(program)
        if pair is None:
            return None
        plain, package = pair
        return plain, lambda *a: (time.sleep(1e-3), package(*a))[1]

    monkeypatch.setattr(hunt, "compiled", slower)
    # The processes know nothing of what is patched here.
    monkeypatch.setattr(hunt, "lost", lambda program, exact: [0.5, 0.25])
    monkeypatch.setattr(hunt, "drawn", lambda *_: program)
    assert hunt.hunt(["sort"], 0, 0.1, exact=True) > 0
    printed = capsys.readouterr().out
    assert f"{program.told()}: 0.50, 0.25; " in printed
    assert "jnp.sort" in printed or "lax.sort" in printed


def test_processes_judge(monkeypatch, program):
    """A ratio in which a process sees no loss ends it."""
    times = iter([(1, 2), (1, 1)])

    class Done:
        @property
        def stdout(self):
            plain, package = next(times)
            return f'{{"plain": {plain}, "package": {package}}}'

    monkeypatch.setattr(hunt.subprocess, "run", lambda *_, **__: Done())
    assert hunt.lost(program, exact=True) == []
    times = iter([(1, 2)] * hunt.PROCESSES)
    assert hunt.lost(program, exact=True) == [0.5] * hunt.PROCESSES


def test_a_process_prints_both_times(monkeypatch, capsys, program):
    monkeypatch.setattr(hunt, "LONGER", 2)
    hunt.main(["--time", *program.told().split()])
    timed = hunt.Timed(**json.loads(capsys.readouterr().out))
    assert timed.plain > 0 and timed.package > 0
    assert timed.ratio == timed.plain / timed.package
