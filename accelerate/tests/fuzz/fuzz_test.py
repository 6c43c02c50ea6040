"""accelerate: some random programs of each name, and every rule is met."""

import dataclasses
import random
import re

import fuzz
import fuzz_run
import hypothesis
import jax
import pytest
from fuzz_build import programs
from fuzz_operations import OPERATIONS
from fuzz_program import Array, Program

from xla_ffi_accelerate import registry

SEED = 1
COUNT = 8
# So many more are drawn where these meet a rule of none of them.
MOST = 100
# What failed once, or is rare.
SMALL = ("small", "normal", "ties", "zeros", "large")
KEPT = {
    "matrices in a loop that XLA makes one function of": Program(
        "dot_general",
        [
            Array("weights", (2, 8, 4, 6), "float32", ("normal",), 1, 1),
            Array("a0", (2, 8, 6, 4), "float32", SMALL, 1, 2),
            Array("a1", (2, 8, 6, 6), "float32", SMALL, 1, 3),
        ],
        ["x0 = jnp.einsum('bkm,bkn->bmn', a0, a1)"],
        [
            "f1 = lambda w, a, b: jax.grad(lambda a: jnp.sum(f0(a, b) * w))(a)",
            "f2 = lambda *a: jax.lax.scan(lambda _, a: (0, f1(*a)), 0, a)[1]",
        ],
        judge="nans",
        x64=False,
        forced=True,
    ),
    "a broadcast with axes out of order, on jax 0.8.1": Program(
        "loops",
        [
            Array("a0", (1, 3, 9, 8), "float32", SMALL[:4], 1, 1),
            Array("a1", (1, 3, 8, 4), "float32", SMALL[:4], 1, 2),
        ],
        ["x0 = jnp.einsum('bmk,bkn->nbm', a0, a1)"],
        ["f1 = jax.vmap(f0)"],
        judge="linear",
        batch=1,
        forced=True,
        exact=False,
    ),
    "a long solve": Program(
        "linalg",
        [
            Array("a0", (3, 3), "float32", ("triangular",), 0, 1),
            Array("a1", (3, 1024), "float32", ("small",), 0, 2),
        ],
        [
            "x0 = jax.lax.linalg.triangular_solve("
            "a0, a1, left_side=True, lower=True)"
        ],
        judge="solved",
        forced=True,
        exact=False,
    ),
}


@pytest.fixture(scope="module")
def session():
    return fuzz.Session()


@pytest.mark.parametrize("what", KEPT)
def test_kept(session, what):
    assert session.failure(KEPT[what]) is None


@pytest.mark.parametrize("name", OPERATIONS)
def test_programs(session, name):
    assert session.search(name, COUNT, SEED) is None


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
                    database=None,
                ),
                random=random.Random(SEED),
            )
            assert session.failure(program) is None
        except hypothesis.errors.NoSuchExample:
            missed.append(fuzz_run.rule_name(name, rule))
    print(session.summary())
    assert not missed, f"no program was lowered to: {', '.join(missed)}"


def test_a_fault_is_found_made_simple_and_kept(monkeypatch, capsys, tmp_path):
    """One that the second of equal elements shows."""
    (rule,) = registry.RULES["argmax"]

    def last(x, *, axes, index_dtype):
        found = rule.call(
            jax.numpy.flip(x, axes), axes=axes, index_dtype="int32"
        )
        return (x.shape[axes[0]] - 1 - found).astype(index_dtype)

    wrong = dataclasses.replace(rule, call=last)
    monkeypatch.setitem(registry.RULES, "argmax", [wrong])
    command = ["--only", "argmax", "--database", str(tmp_path)]
    assert fuzz.main([*command, "--seconds", "900"]) == 1
    said = capsys.readouterr().out
    source = said.partition("def f0(")[2].partition("---")[0]
    assert source.count(" = ") <= 3  # of an operation, a wrapper, and f
    assert "expected" in said and "Array(name='a0'" in said
    # Another run begins with it.
    kept = hypothesis.settings(fuzz.SETTINGS, phases=[hypothesis.Phase.reuse])
    monkeypatch.setattr(fuzz, "SETTINGS", kept)
    assert fuzz.main([*command, "--seconds", "0.1"]) == 1
    assert f"def f0({source}" in capsys.readouterr().out
    monkeypatch.undo()
    assert fuzz.main([*command, "--seed", "7", "--seconds", "0.1"]) == 0
    count = int(re.search(r"(\d+) programs, jax", capsys.readouterr().out)[1])
    assert count >= fuzz.BATCH
