"""The programs give the same results with and without the kit."""

import pathlib

import jax
import numpy as np
import pytest

import compare
import xla_ffi_accelerate


@pytest.mark.parametrize("name", compare.PROGRAMS)
def test_same_results(name, capsys):
    compare.compare(name, short=True, rounds=1)
    said = capsys.readouterr().out
    close = hasattr(compare.PROGRAMS[name], "TOLERANCE")
    assert ("results within" if close else "same results") in said


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("particle filter", ["cumulative", "sort"]),
        ("mixture of experts", ["cumulative", "sort", "top_k"]),
        ("personal PageRank", ["bcoo_dot_general"]),
    ],
)
def test_programs_call_the_handlers(name, targets):
    module = compare.PROGRAMS[name]
    args = module.arguments(True)
    with xla_ffi_accelerate.enabled():
        text = jax.jit(module.program).lower(*args).as_text()
    for target in targets:
        assert f"xla_ffi_accelerate.{target}" in text


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
    file = pathlib.Path("accelerate/docs/explained.md")
    assert compare.page() == file.read_text()
