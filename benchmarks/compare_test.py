"""The benchmark measures what it says, and the gate can fail."""

import dataclasses
import json

import environments
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import baseline_ops
import compare
from bench import command, gate, measure, page, plot, report
from bench.measure import Ratio, Row
from xla_ffi_kit.ops import LIBRARIES

jax.config.update("jax_enable_x64", True)
ALL = [*compare.SUITE.cells()]
CELLS = {cell.name: cell for cell in ALL}


def run(*arguments, suite=compare.SUITE):
    return command.main(suite, compare.__file__, arguments)


def row(name, **ratios):
    made = {n: Ratio(m, 0.9 * m, 1.1 * m) for n, m in ratios.items()}
    times = {n: m for n, m in ratios.items()} | {"kit": 1.0}
    return Row(name, times, made, {"kit": 0.0}, 2.0, False, 5)


def test_every_name_is_one_cell_s():
    assert len(CELLS) == len(ALL)
    assert {t.cell for t in compare.TARGETS} <= CELLS.keys()
    assert set(compare.SUITE.quick) <= CELLS.keys()


def test_the_loop_and_the_bounds():
    baseline_ops.register()
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 70)), jnp.float32)
    expected = x / np.sqrt(np.mean(np.square(x), -1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(baseline_ops.rms_norm(x), expected, rtol=1e-5)
    np.testing.assert_array_equal(baseline_ops.copy(2 * x, x), x)
    np.testing.assert_array_equal(
        baseline_ops.relu(x), np.maximum(np.asarray(x), 0)
    )
    assert baseline_ops.empty(x).shape == x.shape


@pytest.mark.parametrize(
    "name",
    [
        "rms_norm/bwd/c64/8x4/fresh",
        "rms_norm/fwd/bf16/16x64/chain",
        "modular_add/fwd/f64/8x4/fresh",
        "rms_norm/fwd/f32/1024x1024/donated",
        "rms_norm/fwd/f32/1024x1024/value_and_grad",
        "rms_norm_residual/fwd/f32/1024x1024/fresh",
    ],
)
def test_a_cell_of_each_kind(name):
    measured = measure.measure(CELLS[name], seconds=0.01)
    assert measured.name == name and measured.rounds >= 5
    assert {"xla", "kit"} <= measured.microseconds.keys()
    assert all(r.low <= r.median <= r.high for r in measured.ratios.values())


def test_wrong_results_are_not_timed():
    good = CELLS["relu/fwd/f32/8x4/fresh"]

    def make():
        made = good.make()
        function, operands = made["kit"]
        return made | {"kit": (function, tuple(2 * x for x in operands))}

    bad = dataclasses.replace(good, make=make)
    with pytest.raises(AssertionError, match="kit and XLA disagree"):
        measure.measure(bad, seconds=0.01)


def test_bytes_count_each_array_once():
    assert CELLS["rms_norm/fwd/f32/1024x1024/fresh"].bytes == 2 * 4 << 20
    assert CELLS["rms_norm/bwd/bf16/1024x1024/fresh"].bytes == 3 * 2 << 20


def test_best_of_runs_counts():
    name = "rms_norm/fwd/f32/1024x1024/fresh"
    runs = [
        [row(name, xla=1.0, tutorial=3.0, copy=0.4)],
        [row(name, xla=1.6, tutorial=2.0, copy=0.6)],
    ]
    verdicts = {v.against: v for v in gate.judge(compare.TARGETS, runs)}
    assert verdicts["x xla"].got == 1.6 and verdicts["x xla"].score > 1
    assert verdicts["x tutorial"].got == 3.0
    assert verdicts["<= x copy"].got == pytest.approx(1 / 0.6)
    assert gate.conclusion(list(verdicts.values())).startswith("3 of 3")


@pytest.mark.parametrize("ratio, code", [(1.5, 0), (1.25, 0), (1.1, 1)])
def test_the_gate_fails_below_four_fifths(monkeypatch, capsys, ratio, code):
    name = "rms_norm/fwd/f32/1024x1024/fresh"
    runs = []

    def measured(cells, seconds):
        runs.append([cell.name for cell in cells])
        return [row(name, xla=ratio, tutorial=9.0, copy=1.0)]

    monkeypatch.setattr(command, "run", measured)
    assert run("--gate", "--only", name) == code
    assert len(runs) == (1 if ratio >= 1.5 else 3)
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert "figures reached; worst: rms_norm/fwd/f32/1024x1024/fresh" in last


def test_another_build_beside_the_library(capsys):
    other = LIBRARIES[0].path
    cells = ["relu/fwd/f32/8x4/fresh", "modular_add/fwd/f32/8x4/fresh"]
    assert run("--other", other, "--seconds", "0.01", "--only", *cells) == 0
    said = capsys.readouterr().out
    assert "2 cells, median" in said and "0 with other bits" in said


def test_what_is_published(tmp_path, monkeypatch):
    for folder in ("benchmarks", "docs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "README.md").write_text(
        "is <!-- times rms_norm/fwd/bf16/1024x1024/fresh -->1 times as fast"
    )
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    monkeypatch.setattr(plot, "draw", lambda path, rows: None)

    def publish(*arguments, **ratios):
        rows = [row(name, **ratios) for name in CELLS]
        monkeypatch.setattr(command, "run", lambda cells, seconds: rows)
        assert run("--publish", *arguments) == 0
        wanted = page.pages(compare.SUITE.publication, tmp_path)
        assert {p: (tmp_path / p).read_text() for p in wanted} == wanted
        assert "fresh -->12.3 times" in wanted["README.md"]
        return wanted["docs/measured.md"]

    first = {"xla": 12.345, "tutorial": 3.0, "copy": 1.0}
    once = publish(**first)
    assert once.count(" | 1 us | 12.3 | 3.00 | 1.00 |") == len(CELLS)
    # Another release has a column, and keeps the others; and they keep it.
    both = publish("--jax", jax.__version__, xla=7.25)
    assert both.count(" | 12.3 | 7.25 | 3.00 |") == len(CELLS)
    assert publish(**first) == both
    with pytest.raises(SystemExit):
        run("--publish", "--quick")


def test_another_jax_has_the_same_command_line(monkeypatch, capfd):
    stand_ins = {
        "environment": lambda version: version,
        # Bazel builds it for compare itself alone.
        "wheels": lambda: ["a.whl"],
        "install": lambda wheels, jax, folder: "echo",
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(environments, name, stand_in)
    assert run("--jax", "0.8.1", "--list") == 0
    assert capfd.readouterr().out.endswith("compare.py --jax 0.8.1 --list\n")
    with pytest.raises(SystemExit, match="--jax: expected one of 0.8.1, .*got"):
        run("--jax", "0.1")
    with pytest.raises(SystemExit, match="expected 0.12.0.1, the newest, got"):
        run("--jax", "0.8.1", "--publish")


def test_json_and_plot(tmp_path):
    rows = [
        row(
            "sweep/rms_norm/fwd/f32/1x1024/fresh", xla=2.0, tutorial=3.0, copy=1
        ),
        row("relu/fwd/f32/8x4/fresh", xla=2.0, tutorial=3.0),
    ]
    report.write(tmp_path / "a.json", rows)
    read = json.loads((tmp_path / "a.json").read_text())
    assert read["rows"][0]["ratios"]["xla"]["median"] == 2.0
    plot.draw(tmp_path / "a.png", rows)
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert "8x4/fresh: 1 us; 2.0 GB/s; 0 faults; x xla 2.00" in (
        report.line(rows[1])
    )
    assert "2 cells, 0 slower" in report.summary(rows)
