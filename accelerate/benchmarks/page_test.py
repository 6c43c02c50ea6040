"""The page and the picture are what measured.json says, and all of it."""

import math
import pathlib
import re

import pytest

import bars
import figures
import measured_page
from accelerate_page import ACCELERATE

ROOT = pathlib.Path(__file__).absolute().parents[2]
_, FIGURES = figures.read((ROOT / ACCELERATE.data).read_text())


@pytest.mark.parametrize("path", measured_page.written(ACCELERATE, ROOT))
def test_it_is_current(path):
    wanted = measured_page.written(ACCELERATE, ROOT)[path]
    assert (ROOT / path).read_text() == wanted, (
        "run tools/bazel run //accelerate/benchmarks:measured_page"
    )


def test_every_cell_has_a_line():
    page = (ROOT / ACCELERATE.page).read_text().splitlines()
    tables = sum(line.startswith("|---") for line in page)
    lines = sum(line.startswith("| ") for line in page)
    assert len(FIGURES) > 100 and lines - tables == len(FIGURES)


def test_eight_bars_the_longest_first():
    picture = bars.bars(FIGURES)
    widths = [int(w) for w in re.findall(r'width="(\d+)" height="18"', picture)]
    assert len(widths) == 8 and widths == sorted(widths, reverse=True)
    # On an axis of three decades.
    isin = next(f for f in FIGURES if "isin_of_the_kit/1000000" in f.name)
    expected = 380 * math.log10(isin.ratios["xla"]) / 3
    assert widths[0] == pytest.approx(expected, abs=1)


def test_the_newest_jax_has_a_column():
    name = "accelerate/sort/9/fresh"
    cell = figures.Figure(name, {"kit": 1e3, "xla": 2e3}, {"xla": 2.0})
    machine = {"cores": 2, "cpu": "c", "isa": [], "jax": "1", "huge pages": "x"}
    newest = {"jax": "9.8", "x": {name: 7.0}}
    page = measured_page.page(ACCELERATE, machine, [cell], newest)
    assert '"Newest JAX" is 9.8.' in page
    assert "| sort | 9 | 2 | 1 | - | 2.00 | 7.00 | - |" in page
    assert "| sort | 9 | 2 | 1 | - | 2.00 | - | - |" in measured_page.page(
        ACCELERATE, machine, [cell], {}
    )
