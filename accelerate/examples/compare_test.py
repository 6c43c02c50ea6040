"""The programs give the same results with and without the kit."""

import pathlib

import numpy as np
import pytest

import compare


@pytest.mark.parametrize("name", compare.PROGRAMS)
def test_same_results(name, capsys):
    compare.compare(name, short=True, rounds=1)
    said = capsys.readouterr().out
    close = hasattr(compare.PROGRAMS[name], "TOLERANCE")
    assert ("results within" if close else "same results") in said


def test_results_that_differ_are_seen():
    one = np.ones(3, np.float32)
    nearly = np.nextafter(one, 2)
    for name, other in (
        ("particle filter", nearly),
        ("personal PageRank", one * 1.001),
    ):
        with pytest.raises(AssertionError):
            compare.check(compare.PROGRAMS[name], one, other)
    close = compare.check(compare.PROGRAMS["personal PageRank"], one, nearly)
    assert close == "results within 1e-05"


def test_the_page_of_what_explain_says_is_current():
    """It also says which handlers the programs call."""
    file = pathlib.Path("accelerate/docs/explained.md")
    assert compare.page() == file.read_text()
