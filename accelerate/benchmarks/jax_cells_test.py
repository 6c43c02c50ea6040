"""The benchmark compares JAX's own functions with what it says."""

import jax
import pytest

import compare
import measure
import plot
import publish
from accelerate_page import ACCELERATE
from compare_jax import SUITE
from measure import Ratio, Row
from targets import TARGETS

jax.config.update("jax_enable_x64", True)
ALL = [*SUITE.cells()]
CELLS = {cell.name: cell for cell in ALL}


def test_names_are_unique_and_say_everything():
    assert len(CELLS) == len(ALL) > 150
    for name in CELLS:
        assert name.startswith("accelerate/") and len(name.split("/")) == 4


def test_what_users_call_is_judged_beside_the_packages_own():
    judged = {target.cell for target in TARGETS}
    for name in ("isin", "isin,_by_default", "nonzero,_accelerated"):
        assert {c for c in judged if c.startswith(f"accelerate/{name}/")}, name
    for name in ("isin", "nonzero"):
        assert f"accelerate/{name}_of_the_kit/1000000/fresh" in judged


def test_every_target_and_every_bar_is_a_cell():
    assert {target.cell for target in TARGETS} <= CELLS.keys()
    assert set(ACCELERATE.in_words.values()) <= CELLS.keys()
    assert set(SUITE.quick) <= CELLS.keys()


@pytest.mark.parametrize(
    "name",
    [
        "sort_f32/16/fresh",
        "isin,_by_default/16/fresh",
        "unique_of_the_kit/16/eager",
        "unique_of_the_kit/16/fresh",
    ],
)
def test_a_cell_of_each_kind(name):
    measured = measure.measure(CELLS[f"accelerate/{name}"], seconds=0.01)
    assert measured.rounds >= 5
    assert {"xla", "kit"} <= measured.microseconds.keys()


@pytest.mark.parametrize(
    "name",
    [
        "sort_f32/1000",
        "argmax_f32/1000",
        "isin/1000000",
        "nonzero,_accelerated/1000000",
        "unique_of_the_kit/16",
    ],
)
def test_what_stands_beside_jax_is_the_package(name):
    made = CELLS[f"accelerate/{name}/fresh"].make()
    assert "xla_ffi_accelerate." in made["kit"][0].as_text()
    assert "xla_ffi_accelerate." not in made["xla"][0].as_text()


def _row(name, **ratios):
    made = {n: Ratio(m, 0.9 * m, 1.1 * m) for n, m in ratios.items()}
    times = {n: m for n, m in ratios.items()} | {"kit": 1.0}
    return Row(name, times, made, {"kit": 0.0}, 2.0, False, 5)


def test_the_column_of_another_release(tmp_path, monkeypatch):
    for folder in ("benchmarks", "docs"):
        (tmp_path / "accelerate" / folder).mkdir(parents=True)
    (tmp_path / "accelerate/README.md").write_text(
        "<!-- times accelerate/lexsort/1000000/fresh -->1 times"
    )
    rows = [_row(name, xla=12.345, numpy=0.5) for name in CELLS]
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    monkeypatch.setattr(compare, "run", lambda cells, seconds: rows)
    monkeypatch.setattr(plot, "draw", lambda path, rows: None)
    assert compare.main(["--publish"], SUITE) == 0
    wanted = publish.pages(ACCELERATE, tmp_path)
    assert {p: (tmp_path / p).read_text() for p in wanted} == wanted

    # Only that column is renewed, in both directions.
    newest = [_row(name, xla=7.25) for name in CELLS]
    monkeypatch.setattr(compare, "run", lambda cells, seconds: newest)
    assert compare.main(["--publish", "--jax", jax.__version__], SUITE) == 0
    both = (tmp_path / ACCELERATE.page).read_text()
    assert both.count(" | 12.3 | 7.25 | 0.50 |") == len(CELLS)
    monkeypatch.setattr(compare, "run", lambda cells, seconds: rows)
    assert compare.main(["--publish"], SUITE) == 0
    assert (tmp_path / ACCELERATE.page).read_text() == both
