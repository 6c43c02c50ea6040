"""The benchmark of loops: what it compares, and that its page is current."""

import json
import pathlib

import numpy as np
import pytest

import loops
import loops_page
from bench import modes
from loop_programs import programs

ROOT = pathlib.Path(__file__).absolute().parents[2]
DATA = json.loads((ROOT / loops_page.DATA).read_text())


def test_it_measures_and_compares(tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FFI_KIT_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "loops.json"
    some = ["GARCH likelihood", "sort of 8"]
    short = ["--runs", "1", "--rounds", "1", "--seconds", "0.001"]
    short += ["--json", str(file)]
    assert loops.main(["--only", *some, *short]) == 0
    rows = json.loads(file.read_text())["programs"]
    assert {"plain", "exact", "all"} <= set(rows[0]["ns"])
    assert any("C++" in row["ns"] for row in rows)
    for row in rows:
        assert all(len(ns) == 1 and min(ns) > 0 for ns in row["ns"].values())


def test_an_unknown_name_is_an_error(capsys):
    with pytest.raises(SystemExit):
        loops.main(["--only", "no such loop"])
    assert "no program has any of" in capsys.readouterr().err


def _results(**changed):
    x = np.linspace(1, 2, 5, dtype=np.float32)
    same = {"plain": [x], "exact": [x], "all": [x], "C++": [x[-1:]]}
    return same | {mode: [value] for mode, value in changed.items()}


def test_a_difference_is_found():
    x = _results()["plain"][0]
    assert loops._difference(_results()) == ""
    other = np.nextafter(x, np.float32(3))
    assert "exact" in loops._difference(_results(exact=other))
    assert loops._difference(_results(all=other)) == ""
    assert "all" in loops._difference(_results(all=x * 1.01))
    assert "all" in loops._difference(_results(all=x * np.nan))
    assert "C++" in loops._difference(_results(**{"C++": x[:1]}))


def test_slower_is_what_loses_in_each_run():
    runs = [{"plain": 1, "exact": 1, "all": all_} for all_ in (2, 1.5)]
    rows = [{"name": "x", "ns": ns, "first": {}, "differs": ""} for ns in runs]
    assert modes.slower([loops_page.joined(rows)]) == "x (all)"
    rows[1]["ns"]["all"] = 1
    assert modes.slower([loops_page.joined(rows)]) == ""


def test_page_and_picture_are_current():
    assert (ROOT / loops_page.PAGE).read_text() == loops_page.page(DATA), (
        "run tools/bazel run //accelerate/benchmarks:loops -- --publish"
    )
    picture = (ROOT / loops_page.PICTURE).read_text()
    first = loops_page.releases(DATA)[0]
    assert first["cpu"] in picture and first["day"] in picture
    for row in first["programs"]:
        assert row["name"] in picture
        assert f">{modes.ratio(row, 'all'):.2f}<" in picture


def test_every_program_is_on_the_page():
    measured = loops_page.releases(DATA)[0]["programs"]
    assert [row["name"] for row in measured] == list(programs())
    for found in DATA.values():
        assert not [row for row in found["programs"] if row["differs"]]
