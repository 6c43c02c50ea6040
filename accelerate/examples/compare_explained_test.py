"""The page of explained programs is what `explain` says today."""

import pathlib

import compare_explained


def test_the_page_is_up_to_date():
    file = pathlib.Path("accelerate/docs/explained.md")
    assert compare_explained.page() == file.read_text()
