"""The page and the picture are what measured.json says, and all of it."""

import math
import pathlib
import re

import bars
import figures
import measured_page
import pytest

ROOT = pathlib.Path(__file__).absolute().parents[1]
_, FIGURES = figures.read((ROOT / measured_page.DATA).read_text())


@pytest.mark.parametrize("path", measured_page.written(ROOT))
def test_it_is_current(path):
    assert (ROOT / path).read_text() == measured_page.written(ROOT)[path], (
        "run tools/bazel run //benchmarks:measured_page"
    )


def test_every_cell_has_a_line():
    page = (ROOT / measured_page.PAGE).read_text().splitlines()
    cells = [f for f in FIGURES if not f.name.startswith("sweep/")]
    tables = sum(line.startswith("|---") for line in page)
    lines = sum(line.startswith("| ") for line in page)
    assert len(cells) > 200 and lines - tables == len(cells)


def test_ten_bars_the_longest_first():
    picture = bars.bars(FIGURES)
    widths = [int(w) for w in re.findall(r'width="(\d+)" height="18"', picture)]
    assert len(widths) == 10 and widths == sorted(widths, reverse=True)
    # On an axis of three decades.
    isin = next(f for f in FIGURES if "isin_of_the_kit/1000000" in f.name)
    expected = 380 * math.log10(isin.ratios["xla"]) / 3
    assert widths[0] == pytest.approx(expected, abs=1)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.9, "0.90"), (9.13, "9.13"), (17, "17.0"), (169, "169"), (0.04, "0.04")],
)
def test_ratios(value, text):
    assert figures.digits(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.523, "0.523 us"), (195, "195 us"), (2.82e6, "2,820 ms")],
)
def test_times(value, text):
    assert figures.duration(value) == text


def test_the_figures_of_the_readme_are_written():
    text = (ROOT / measured_page.README).read_text()
    cells = [f._replace(ratios={"xla": 4.56}) for f in FIGURES]
    assert measured_page.readme(text, cells).count(" 4.56 times") == 4
    with pytest.raises(AssertionError, match="0 times 'lexsort '"):
        measured_page.readme(text.replace("lexsort ", "sorting "), cells)


def test_an_operation_without_a_table_of_its_own():
    cell = figures.Figure("new/bwd/f32/2x3/fresh", {"kit": 1.0}, {"xla": 2.0})
    machine = {"cores": 2, "cpu": "c", "isa": [], "jax": "1", "huge pages": "x"}
    page = measured_page.page(machine, [cell], {})
    assert "| `new` f32 (2, 3), fresh, backward | 1 us | 2.00 | -" in page


def test_the_newest_jax_has_a_column():
    name = "accelerate/sort/9/fresh"
    cell = figures.Figure(name, {"kit": 1e3, "xla": 2e3}, {"xla": 2.0})
    machine = {"cores": 2, "cpu": "c", "isa": [], "jax": "1", "huge pages": "x"}
    newest = {"jax": "9.8", "x": {name: 7.0}}
    page = measured_page.page(machine, [cell], newest)
    assert '"Newest JAX" is 9.8.' in page
    assert "| sort | 9 | 2 | 1 | - | 2.00 | 7.00 | - |" in page
    assert "| sort | 9 | 2 | 1 | - | 2.00 | - | - |" in measured_page.page(
        machine, [cell], {}
    )
