"""The runner of public programs, with programs of the test's own."""

import json
import os
import pathlib
import sys

import page
import pytest
import run

ROOT = pathlib.Path(__file__).absolute().parents[2]
DATA, AVX2, ONE_CORE = (
    json.loads((ROOT / file).read_text())
    for file in (page.DATA, page.AVX2, page.ONE_CORE)
)
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
        chosen = sorted(folder.glob("*.py"))
        return list(run.measured(sys.executable, chosen, run.Plan(2, 1, 0.001)))


def test_what_was_replaced_and_how_long_it_took(rows):
    row = rows[0]
    assert row["replaced"] == {"sort": 1} and row["arrays"] == 2
    assert row["differs"] == {"plain": 0, "exact": 0, "all": 0}
    # The other two do next to nothing: microseconds must not become 0.
    for times in (r[what] for r in rows[:3] for what in ("ms", "first")):
        assert set(times) == set(run.MODES)
        assert all(len(s) == 2 and min(s) > 0 for s in times.values())
    assert not page.is_wrong(row)


def test_results_that_differ(rows):
    assert rows[1]["differs"]["plain"] == 1  # by themselves
    assert not page.is_wrong(rows[1])
    assert rows[2]["differs"] == {"plain": 0, "exact": 1, "all": 1}
    assert page.is_wrong(rows[2])


def test_a_failure_says_why(rows):
    assert rows[3]["failed"] == "ValueError: on purpose"
    assert page.is_wrong(rows[3])
    assert "3 programs, 1 failed" in page.summary(rows)


def test_slower_is_what_loses_in_each_run(rows):
    row = {"name": "x", "ms": {"plain": [1, 1], "exact": [2, 1.1]}}
    assert page.is_slower(row, "exact")
    assert "`x` (exact)" in page._slower(
        [{**row, "ms": row["ms"] | {"all": [1, 1]}}]
    )
    assert not page.is_slower(
        {"ms": {"plain": [1, 1], "exact": [2, 1]}}, "exact"
    )


def test_page_and_picture_are_current():
    folder = pathlib.Path(run.__file__).parent / "public"
    assert (ROOT / page.PAGE).read_text() == page.page(
        DATA, AVX2, ONE_CORE, folder
    ), "run tools/bazel run //accelerate/programs:run -- --publish"
    picture = (ROOT / page.PICTURE).read_text()
    for row in DATA["programs"]:
        assert row["name"] in picture
        assert f">{page.ratio(row, 'exact'):.2f}<" in picture


def test_every_program_stays_in_the_table():
    names = [program.stem for program in run.programs()]
    for data in DATA, AVX2, ONE_CORE:
        assert [row["name"] for row in data["programs"]] == names
        assert not [r["name"] for r in data["programs"] if "failed" in r]
    # A single run does not compare plain JAX with itself.
    assert not [row["name"] for row in DATA["programs"] if page.is_wrong(row)]
