"""The benchmark of strings: what it compares, and that its page is current."""

import json
import pathlib

import numpy as np
import pytest

import strings
import strings_by_hand
import strings_page
from strings_kernels import kernels

ROOT = pathlib.Path(__file__).absolute().parents[1]
DATA = json.loads((ROOT / strings_page.DATA).read_text())


def test_it_measures_and_compares(tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FFI_KIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.setenv("XLA_FFI_KIT_THREADS", "1")
    monkeypatch.setattr(strings, "ROWS", (1, 3))
    file = tmp_path / "strings.json"
    options = ["--only", "smoothing", "--seconds", "0", "--json", str(file)]
    assert strings.main(options) == 0
    rows = json.loads(file.read_text())["kernels"]
    assert [row["rows"] for row in rows] == [1, 3]
    for row in rows:
        assert {"kit", "JAX", "numba"} <= row["value"].keys()
        assert {"kit", "JAX", "by hand"} <= row["gradient"].keys()
        assert min(*row["value"].values(), *row["gradient"].values()) > 0


def test_a_difference_is_found():
    x = np.linspace(1, 2, 5, dtype=np.float32)
    strings._compare("a", {"kit": x, "JAX": [x * 1.001]})
    with pytest.raises(AssertionError, match="a: JAX and the kit disagree"):
        strings._compare("a", {"kit": x, "JAX": [x * 1.01]})


def test_page_and_picture_are_current():
    assert (ROOT / strings_page.PAGE).read_text() == strings_page.page(DATA)
    picture = (ROOT / strings_page.PICTURE).read_text()
    assert DATA["environment"]["day"] in picture
    for row in DATA["kernels"]:
        assert row["name"] in picture
        if row["rows"] > 1:
            for what in ("value", "gradient"):
                ratio = strings_page.ratio(row, what, "JAX")
                assert f">{ratio:.2f}<" in picture


def test_every_kernel_is_on_the_page():
    measured = [(row["name"], row["rows"]) for row in DATA["kernels"]]
    assert measured == [(n, r) for n in kernels() for r in strings.ROWS]
    assert strings_by_hand.ADJOINTS.keys() <= kernels().keys()
