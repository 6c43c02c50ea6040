"""Compile times: which programs are compared, and what is said of them."""

import pytest

import compile_times
from jax_cells import cases

CASES = {case.name: case for case in cases()}


def test_programs_of_a_case(capsys):
    compile_times.main(["--only", "sort f32"])
    *lines, count, exact, all_ = capsys.readouterr().out.splitlines()
    names = [line.split("  ")[0] for line in lines]
    assert "sort f32, alone" in names and "sort f32, 10 places" in names
    assert "sort f32, large loop" in names
    assert count.startswith(f"{len(lines)} programs")
    assert exact.startswith("exact: geometric mean")
    assert all_.startswith("all: geometric mean")


def test_what_no_rule_changes_is_left_out():
    assert compile_times.measured((lambda x: x + x, [1.0])) == {}


def test_every_place_has_arguments_of_its_own():
    case = CASES["sort key, payload"]
    _, (function, arguments) = [*compile_times.programs(case)][1]
    _, text = compile_times.seconds((function, arguments), "exact")
    assert text.count("@xla_ffi_accelerate") == compile_times.PLACES


def test_what_takes_longer_is_named():
    rows = {
        "a": {"plain": 1.0, "exact": 1.2, "all": 1.0},
        "b": {"plain": 1.0, "all": 0.5},
    }
    said = compile_times.summary(rows)
    assert "exact: geometric mean 1.20, most 1.20; above 1.05: a" in said
    assert said.endswith(
        "all: geometric mean 0.71, most 1.00; above 1.05: none"
    )


def test_an_unknown_name_is_an_error(capsys):
    with pytest.raises(SystemExit):
        compile_times.main(["--only", "no such case"])
    assert "no program has any of" in capsys.readouterr().err
