"""The page is what measured.json says, and all of it."""

import pathlib

import pytest

import figures
import measured_page
from kit_page import KIT

ROOT = pathlib.Path(__file__).absolute().parents[1]
_, FIGURES = figures.read((ROOT / KIT.data).read_text())


@pytest.mark.parametrize("path", measured_page.written(KIT, ROOT))
def test_it_is_current(path):
    assert (ROOT / path).read_text() == measured_page.written(KIT, ROOT)[
        path
    ], "run tools/bazel run //benchmarks:measured_page"


def test_every_cell_has_a_line():
    page = (ROOT / KIT.page).read_text().splitlines()
    cells = [f for f in FIGURES if not f.name.startswith("sweep/")]
    tables = sum(line.startswith("|---") for line in page)
    lines = sum(line.startswith("| ") for line in page)
    assert len(cells) > 100 and lines - tables == len(cells)


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
    text = (ROOT / KIT.readme).read_text()
    cells = [f._replace(ratios={"xla": 4.56}) for f in FIGURES]
    assert measured_page.readme(KIT, text, cells).count(" 4.56 times") == 2
    with pytest.raises(AssertionError, match="0 times 'derivative '"):
        measured_page.readme(KIT, text.replace("derivative ", "it "), cells)


def test_an_operation_without_a_table_of_its_own():
    cell = figures.Figure("new/bwd/f32/2x3/fresh", {"kit": 1.0}, {"xla": 2.0})
    machine = {"cores": 2, "cpu": "c", "isa": [], "jax": "1", "huge pages": "x"}
    page = measured_page.page(KIT, machine, [cell], {})
    assert "| `new` f32 (2, 3), fresh, backward | 1 us | 2.00 | -" in page
