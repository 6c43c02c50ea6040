"""accelerate: some random programs of each name, and every rule is met."""

import dataclasses
import random
import re

import fuzz
import fuzz_report
import fuzz_run
import hypothesis
import jax
import numpy as np
import pytest
from fuzz_build import OPERATIONS, programs
from fuzz_draw import Stream

from xla_ffi_accelerate import registry

SEED = 1
COUNT = 2  # the simplest one, and another
# So many more are drawn where neither these nor those of kept.txt meet a rule.
MOST = 100


@pytest.fixture(scope="module")
def session():
    return fuzz.Session()


def check(session):
    """No program has failed."""
    failures = [(o.program.told(), o.difference) for o in session.failures]
    session.failures.clear()
    assert not failures, failures


@pytest.mark.parametrize(
    "name,choices", fuzz.kept(fuzz.KEPT), ids=lambda given: given[:24]
)
def test_kept(session, name, choices):
    session.keep(session.run(fuzz.given(name, choices)))
    check(session)


@pytest.mark.parametrize("name", OPERATIONS)
def test_programs(session, name):
    session.search(name, SEED, COUNT)
    check(session)


def test_every_rule_is_met(session):
    """Those of this release; a rule that none has met yet gets a program."""
    if set(session.programs) < set(OPERATIONS):
        pytest.skip("not all names have run")
    missed = []
    for name, rule in fuzz_run.rules():
        if session.counter.programs[name, rule] or fuzz_run.is_refused(rule):
            continue
        try:
            program = hypothesis.find(
                programs(name),
                lambda p, at=(name, rule): at in fuzz_run.met(p),
                settings=hypothesis.settings(
                    fuzz.SETTINGS,
                    max_examples=MOST,
                    phases=[hypothesis.Phase.generate],
                ),
                random=random.Random(SEED),
            )
            session.keep(session.run(program))
        except hypothesis.errors.NoSuchExample:
            missed.append(fuzz_report.rule_name(name, rule))
    print(session.summary())
    check(session)
    assert not missed, f"no program was lowered to: {', '.join(missed)}"


def test_a_fault_is_found_and_made_simple(session, monkeypatch, capsys):
    """One that the second of equal elements shows."""
    (rule,) = registry.RULES["argmax"]

    def last(x, *, axes, index_dtype):
        found = rule.call(
            jax.numpy.flip(x, axes), axes=axes, index_dtype="int32"
        )
        return (x.shape[axes[0]] - 1 - found).astype(index_dtype)

    wrong = dataclasses.replace(rule, call=last)
    monkeypatch.setitem(registry.RULES, "argmax", [wrong])
    session.search("argmax", SEED, 30)
    (failure,) = session.failures
    session.failures.clear()
    assert len(failure.program.lines) + len(failure.program.wrappers) == 1
    replay = ["--replay", *failure.program.told().split()]
    assert " ".join(replay) in capsys.readouterr().out
    assert fuzz.main(replay) == 1
    said = capsys.readouterr().out
    assert failure.program.source() in said and failure.difference in said
    monkeypatch.undo()
    assert fuzz.main(replay) == 0


def test_the_command_ends_in_time(capsys):
    """It begins another name for as long as it was told."""
    assert fuzz.main(["--seconds", "0.1", "--only", "sort"]) == 0
    said = capsys.readouterr().out
    programs = int(re.search(r"(\d+) programs, 0 failures", said)[1])
    kept = [name for name, _ in fuzz.kept(fuzz.KEPT)].count("sort")
    assert programs >= kept + fuzz.BATCH


def test_streams_are_the_same_on_every_machine():
    assert Stream(7).below(1000, 4).tolist() == [43, 325, 786, 314]
    assert isinstance(Stream(7).bell(3), np.ndarray)
