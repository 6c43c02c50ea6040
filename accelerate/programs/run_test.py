"""The runner of public programs, with programs of the test's own."""

import argparse
import json
import os
import pathlib
import sys

import page
import pytest
import run

from bench import modes

ROOT = pathlib.Path(__file__).absolute().parents[2]
SORTS = """
import jax, jax.numpy as jnp
def program():
    f = jax.jit(lambda x: (jnp.sort(x), x + 1))
    return lambda: f(jnp.arange(1000.0)[::-1])
"""
NEVER_THE_SAME = """
import os, numpy as np
def program():
    return lambda: np.frombuffer(os.urandom(8), np.uint8)
"""
WRONG = """
import os, numpy as np
def program():
    mode = os.environ.get("XLA_FFI_ACCELERATE", "")
    return lambda: (np.float32(len(mode)), np.float32(1))
"""
FAILS = "def program():\n    raise ValueError('on purpose')\n"


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("public")
    texts = {"a": SORTS, "b": NEVER_THE_SAME, "c": WRONG, "d": FAILS}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        return [measured(folder, name) for name in texts]


def measured(folder, name):
    """Whether it differs from itself, the second of two runs shows."""
    runs = 2 if name == "b" else 1
    short = argparse.Namespace(runs=runs, rounds=1, seconds=0.001)
    return run.measured(sys.executable, folder, name, short)


def test_what_was_replaced_and_how_long_it_took(rows):
    row = rows[0]
    assert row["replaced"] == {"sort": 1} and row["arrays"] == 2
    assert row["differs"] == {"plain": 0, "exact": 0, "all": 0}
    # The other two do next to nothing: microseconds must not become 0.
    for runs, row in zip((1, 2, 1), rows, strict=False):
        for times in (row["ms"], row["first"]):
            assert set(times) == set(modes.MODES)
            assert all(len(s) == runs and min(s) > 0 for s in times.values())
    assert not page.is_wrong(rows[0])


def test_results_that_differ(rows):
    assert rows[1]["differs"]["plain"] == 1  # by themselves
    assert not page.is_wrong(rows[1])
    assert rows[2]["differs"] == {"plain": 0, "exact": 1, "all": 1}
    assert page.is_wrong(rows[2])


def test_a_failure_says_why(rows):
    assert rows[3]["failed"] == "ValueError: on purpose"
    assert page.is_wrong(rows[3])
    assert "3 programs, 1 failed" in modes.summary(rows)


def test_page_and_picture_are_current():
    assert (ROOT / page.PAGE).read_text() == page.page(ROOT), (
        "run tools/bazel run //accelerate/programs:run -- --publish"
    )
    picture = (ROOT / page.PICTURE).read_text()
    for row in programs(page.DATA):
        assert row["name"] in picture
        assert f">{modes.ratio(row, 'exact'):.2f}<" in picture


def programs(file):
    return json.loads((ROOT / file).read_text())["programs"]


@pytest.mark.parametrize("file", [page.DATA, *page.OTHERS.values()])
def test_every_program_stays_in_the_table(file):
    rows = programs(file)
    names = [row["name"] for row in rows]
    every = [program.stem for program in run.programs()]
    if file == page.OTHERS["newest JAX"]:  # which not all packages know yet
        assert len(names) > 25 and set(names) < set(every)
    else:
        assert names == every
    assert not [row["name"] for row in rows if "failed" in row]
    # A single run does not compare plain JAX with itself.
    wrong = [row["name"] for row in rows if page.is_wrong(row)]
    assert not wrong or file != page.DATA
