"""The runner, with programs of the test's own, a function and a loop."""

import argparse
import os
import sys

import jax
import numpy as np
import page
import pytest
import run

import jax_cells
import jax_loops

# Another one in each mode, and the same in plain JAX.
WRONG = """
import os, numpy as np
def program():
    mode = os.environ.get("XLA_FFI_ACCELERATE", "")
    return lambda: (np.float32(len(mode)), np.float32(1))
"""
NEVER_THE_SAME = """
import os, numpy as np
def program():
    return lambda: np.frombuffer(os.urandom(8), np.uint8)
"""
FAILS = "def program():\n    raise ValueError('on purpose')\n"
OPTIONS = argparse.Namespace(runs=2, rounds=1, seconds=0.001)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("public")
    texts = {"wrong": WRONG, "unlike": NEVER_THE_SAME, "fails": FAILS}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    items = [run.Item("programs", name, (name, "program")) for name in texts]
    items += run.chosen(["loops"], ["sort of 8"])
    items += [
        i
        for i in run.chosen(["cells"], ["sort f32"])
        if i.name == "sort f32/1000"
    ]
    contestants = {
        mode: run.Contestant(sys.executable, setting)
        for mode, setting in page.MODES.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        patch.setattr(run, "FOLDERS", [str(folder), *run.FOLDERS])
        found = [
            row
            for item in items
            for row in run.measured([item], contestants, OPTIONS)
        ]
    return {row["name"]: row for row in found}


def test_times_and_what_was_replaced(rows):
    for name in ("sort f32/1000", "sort of 8"):
        row = rows[name]
        assert row["replaced"] == {"sort": 1} and row["arrays"] == 1
        assert row["differs"] == {"plain": 0, "exact": 0, "all": 0}
        assert not page.is_wrong(row)
        for mode in page.MODES:
            for times in (row["us"], row["least"], row["first"]):
                assert len(times[mode]) == 2 and min(times[mode]) > 0
            assert min(row["least"][mode]) <= page.median(row, mode)
    assert rows["sort f32/1000"]["us"]["NumPy"][0] > 0


def test_results_that_differ_and_a_failure(rows):
    assert rows["unlike"]["differs"]["plain"] == 1  # by itself
    assert not page.is_wrong(rows["unlike"])
    assert rows["wrong"]["differs"] == {"plain": 0, "exact": 1, "all": 1}
    assert page.is_wrong(rows["wrong"])
    assert rows["fails"]["failed"] == "ValueError: on purpose"
    assert page.is_wrong(rows["fails"])


def test_a_page_of_it(rows, tmp_path):
    for folder in ("accelerate/docs", "accelerate/programs"):
        (tmp_path / folder).mkdir(parents=True)
    page.publish(tmp_path, page.figures([*rows.values()]))
    loops = page.figures([rows["sort of 8"]])
    page.publish(tmp_path, loops | {"jax": "99.0"})
    text = (tmp_path / page.PAGE).read_text()
    for name, row in rows.items():
        assert (f"| `{name}` |" in text) == ("failed" not in row)
    ratio = f"{page.ratio(rows['sort of 8'], 'all'):.2f}"
    assert text.count(f"{ratio} |") >= 2 and "jax 99.0" in text


def test_another_wheel_takes_turns(rows):
    row = rows["sort of 8"]
    twice = {
        "us": row["us"] | {page.BEFORE: [2 * t for t in row["us"]["exact"]]}
    }
    found = page.figures([row | twice])
    assert "Beside the other wheel: 2.000, least 2.000" in page.summary(found)
    assert "exact 2.00 x the other" in page.line(row | twice)


def test_what_is_beyond_the_tolerance():
    x = np.linspace(1, 2, 5, dtype=np.float32)
    assert run._are_close([x], [np.nextafter(x, np.float32(3))])
    assert not run._are_close([x], [x * 1.01])
    assert not run._are_close([x], [x * np.nan])


def test_an_unknown_name_is_an_error(capsys):
    with pytest.raises(SystemExit):
        run.main(["--only", "no such program"])
    assert "no program has any of" in capsys.readouterr().err


def test_every_function_and_loop_is_called():
    """The smallest shape of each function; loops are lowered."""
    least = {}
    for name in jax_cells.names():
        least.setdefault(name.rpartition("/")[0], name)
    assert set(least) == set(jax_cells.CASES)
    for name in least.values():
        for make in (jax_cells.program, jax_cells.numpy):
            assert jax.tree.leaves(make(name)()), name
    for name, (function, arguments) in jax_loops.loops().items():
        text = jax.jit(function).lower(*arguments).as_text()
        assert "stablehlo.while" in text, name
