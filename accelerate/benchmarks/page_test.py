"""The page and the picture are what the file of measurements says."""

import json
import pathlib

import pytest

import publish
from accelerate_page import ACCELERATE

ROOT = pathlib.Path(__file__).absolute().parents[2]


@pytest.mark.parametrize(
    ("path", "text"), publish.pages(ACCELERATE, ROOT).items()
)
def test_it_is_current(path, text):
    assert (ROOT / path).read_text() == text, (
        "run tools/bazel run //accelerate/benchmarks:compare -- --pages"
    )


def test_the_bars_have_the_figures():
    picture = (ROOT / ACCELERATE.bars).read_text()
    data = json.loads((ROOT / ACCELERATE.data).read_text())
    assert publish.machine(data) in picture
    for words, name in ACCELERATE.in_words.items():
        ratio = publish.digits(data["cells"][name]["x"]["xla"])
        assert words in picture and f"{ratio} (" in picture, words
