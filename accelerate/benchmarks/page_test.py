"""The page and the picture are what the file of measurements says."""

import json
import pathlib

from accelerate_page import ACCELERATE
from bench import page

ROOT = pathlib.Path(__file__).absolute().parents[2]


def test_they_are_current():
    text = page.pages(ACCELERATE, ROOT)[ACCELERATE.page]
    assert (ROOT / ACCELERATE.page).read_text() == text, (
        "run tools/bazel run //accelerate/benchmarks:compare -- --pages"
    )
    picture = (ROOT / ACCELERATE.bars).read_text()
    data = json.loads((ROOT / ACCELERATE.data).read_text())
    assert page.machine(data["environment"]) in picture
    for words, name in ACCELERATE.in_words.items():
        ratio = page.digits(data["cells"][name]["x"]["xla"])
        assert words in picture and f"{ratio} (" in picture, words
