"""The page is what the file of measurements says, and all of it."""

import json
import pathlib

import pytest

from bench import page
from kit_page import KIT

ROOT = pathlib.Path(__file__).absolute().parents[1]
CELL = {"us": {"kit": 1.0, "xla": 2.0}, "x": {"xla": 2.0}}
MACHINE = {
    "cores": 2,
    "cpu": "c",
    "day": "2026-01-02",
    "isa": [],
    "jax": "1",
    "huge pages": "x",
}


def test_it_is_current():
    """Of other pages, //tests/docs:figures_test looks at the figures."""
    text = page.pages(KIT, ROOT)[KIT.page]
    assert (ROOT / KIT.page).read_text() == text, (
        "run tools/bazel run //benchmarks:compare -- --pages"
    )


def test_the_file_is_read_as_it_is_written():
    text = (ROOT / KIT.data).read_text()
    assert page.written(json.loads(text), "cells") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.9, "0.90"), (9.13, "9.13"), (17, "17.0"), (169, "169"), (0.04, "0.04")],
)
def test_ratios(value, text):
    assert page.digits(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.523, "0.523 us"), (195, "195 us"), (2.82e6, "2,820 ms")],
)
def test_times(value, text):
    assert page.duration(value) == text


FIGURES = {
    "environment": MACHINE,
    "newest": {},
    "cells": {
        "a/b": CELL,
        "a/c": {"us": {"kit": 9.0}, "x": {"xla": 0.5, "copy": 0.25}},
    },
}


@pytest.mark.parametrize(
    ("marker", "before", "after"),
    [
        ("times a/b", "4.56", "2.00"),
        ("times a/*", "4.56 to 7", "0.50 to 2.00"),
        ("times a/b xla", "4.56 to 7", "2.00"),
        ("times a/c xla/copy", "4.56", "2.00"),
        ("times b/a", "4.56", "4.56"),
        ("time a/b", "17 ms", "1 us"),
        ("time a/b xla", "1,700 ms", "2 us"),
        ("time b/a", "17 ms", "17 ms"),
    ],
)
def test_a_marker_names_the_cell_of_a_figure(marker, before, after):
    text = f"is <!-- {marker} -->{{}} as fast in 4.56 of 5"
    found = page.fill(text.format(before), FIGURES, "f.json")
    assert found == text.format(after)


def test_a_marker_names_the_file_of_a_machine():
    text = (
        "on <!-- machine f.json -->{}<!-- / -->; <!-- machine g -->?<!-- / -->"
    )
    found = page.fill(text.format("a\nMac"), FIGURES, "f.json")
    assert found == text.format("2 cores of an c, jax 1, 2026-01-02")


def test_files_have_a_line_for_each_row():
    data = {"environment": {"jax": "1"}, "programs": [{"name": "a"}, {"b": 1}]}
    text = page.written(data, "programs")
    assert json.loads(text) == data and text.count("\n") == 6


def test_what_was_measured_on():
    found = page.environment(jax="1")
    assert found["jax"] == "1" and found["cores"] >= 1
    assert MACHINE.keys() <= found.keys()
