"""The benchmark measures what it says, and the gate can fail."""

import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import another_jax
import baseline_ops
import compare
import gate
import headlines
import kit_page
import measure
import other_library
import plot
import publish
import report
from cells import Cell
from measure import Ratio, Row

jax.config.update("jax_enable_x64", True)
ALL = [*compare.KIT.cells()]
CELLS = {cell.name: cell for cell in ALL}


def row(name, **ratios):
    made = {n: Ratio(m, 0.9 * m, 1.1 * m) for n, m in ratios.items()}
    times = {n: m for n, m in ratios.items()} | {"kit": 1.0}
    return Row(name, times, made, {"kit": 0.0}, 2.0, False, 5)


def test_names_are_unique_and_say_everything():
    assert len(CELLS) == len(ALL)
    for name in CELLS:
        assert len(name.removeprefix("sweep/").split("/")) in (4, 5), name


def test_every_target_is_a_cell():
    missing = {t.cell for t in headlines.TARGETS} - CELLS.keys()
    assert not missing


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
        "rms_norm/fwd/f32/8x4/fresh",
        "rms_norm/bwd/c64/8x4/fresh",
        "rms_norm/fwd/bf16/16x64/chain",
        "relu/fwd/f32/8x4/fresh",
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
    assert ("kit, 1 thread" in measured.ratios) == ("1024x1024" in name)


def test_one_thread_is_another_copy_of_the_library_that_read_it():
    cell = CELLS["relu/fwd/f32/1024x1024/fresh"]
    measure.measure(cell, seconds=0.01)
    assert measure.THREADS not in os.environ
    function, operands = cell.make()["kit"]
    with other_library.calls("one_thread."):
        text = function.lower(*operands).as_text()
    assert "one_thread.xla_ffi_kit.relu" in text


def test_wrong_results_are_not_timed():
    good = CELLS["relu/fwd/f32/8x4/fresh"]

    def make():
        made = good.make()
        function, operands = made["kit"]
        return made | {"kit": (function, tuple(2 * x for x in operands))}

    bad = Cell("bad", good.bytes, make, tolerance=good.tolerance)
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
    verdicts = {v.against: v for v in headlines.judge(headlines.TARGETS, runs)}
    assert verdicts["x xla"].got == 1.6 and verdicts["x xla"].score > 1
    assert verdicts["x tutorial"].got == 3.0
    assert verdicts["<= x copy"].got == pytest.approx(1 / 0.6)
    assert headlines.conclusion(list(verdicts.values())).startswith("3 of 3")


@pytest.mark.parametrize("ratio, code", [(1.5, 0), (1.25, 0), (1.1, 1)])
def test_the_gate_fails_below_four_fifths(monkeypatch, capsys, ratio, code):
    name = "rms_norm/fwd/f32/1024x1024/fresh"
    runs = []

    def run(cells, seconds):
        runs.append([cell.name for cell in cells])
        return [row(name, xla=ratio, tutorial=9.0, copy=1.0)]

    monkeypatch.setattr(compare, "run", run)
    assert gate.main(["--only", name]) == code
    assert len(runs) == (1 if ratio >= 1.5 else 3)
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert "figures reached; worst: rms_norm/fwd/f32/1024x1024/fresh" in last


def test_what_is_published(tmp_path, monkeypatch):
    for folder in ("benchmarks", "docs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "README.md").write_text(
        "is <!-- times rms_norm/fwd/bf16/1024x1024/fresh -->1 times as fast"
    )
    ratios = {"xla": 12.345, "tutorial": 3.0, "numpy": 0.5, "copy": 1.0}
    rows = [row(name, **ratios) for name in CELLS]
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    monkeypatch.setattr(compare, "run", lambda cells, seconds: rows)
    monkeypatch.setattr(plot, "draw", lambda path, rows: None)
    assert compare.main(["--publish"]) == 0
    wanted = publish.pages(kit_page.KIT, tmp_path)
    assert {p: (tmp_path / p).read_text() for p in wanted} == wanted
    page = wanted["docs/measured.md"]
    assert page.count(" | 1 us | 12.3 | 3.00 | 0.50 | 1.00 |") == len(CELLS)
    assert "fresh -->12.3 times" in wanted["README.md"]
    with pytest.raises(SystemExit):
        compare.main(["--publish", "--quick"])


def test_another_jax_has_the_same_command_line(monkeypatch, capfd):
    monkeypatch.setattr(
        another_jax.environments, "environment", lambda version: version
    )
    # Bazel builds it for compare itself alone.
    monkeypatch.setattr(another_jax.environments, "wheels", lambda: ["a.whl"])
    monkeypatch.setattr(
        another_jax.environments,
        "install",
        lambda wheels, jax, folder: "echo",
    )
    assert compare.main(["--jax", "0.8.1", "--list"]) == 0
    assert capfd.readouterr().out.endswith("compare.py --jax 0.8.1 --list\n")
    with pytest.raises(SystemExit, match="--jax: expected one of 0.8.1, .*got"):
        compare.main(["--jax", "0.1"])
    with pytest.raises(SystemExit, match="expected 0.12.0.1, the newest, got"):
        compare.main(["--jax", "0.8.1", "--publish"])


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
    assert read["environment"]["cores"] >= 1
    plot.draw(tmp_path / "a.png", rows)
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert "relu/fwd/f32/8x4/fresh | 1 |" in report.line(rows[1])
    assert "2 cells, 0 slower" in report.summary(rows)
