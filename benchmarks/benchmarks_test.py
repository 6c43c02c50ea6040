"""The benchmarks: what they compare, and that a difference is found."""

import json

import jax
import numpy as np
import pytest

import compare
import measuring
import strings


def test_turns():
    called = []
    functions = {name: lambda name=name: called.append(name) for name in "ab"}
    times = measuring.turns(functions, 1e-3)
    assert called[:4] == ["a", "b"] * 2
    assert 0 <= times["a"].least <= times["a"].median


def test_the_kit_beside_xla(tmp_path, capsys):
    file = tmp_path / "measured.json"
    options = ["--only", "8x4", "--seconds", "0", "--json", str(file)]
    assert compare.main(options) == 0
    ((cell, times),) = json.loads(file.read_text())["seconds"].items()
    assert cell in capsys.readouterr().out
    assert {"xla", "kit", "tutorial"} == times.keys()
    assert min(times.values()) > 0


@pytest.mark.parametrize("cell", ["rms_norm/donated", "rms_norm_residual"])
def test_small_ones_of_each_kind(cell):
    (name,) = {c for c in compare.CELLS if c.startswith(cell)}
    small = f"{name.rpartition('/')[0]}/16x64"
    assert compare.measure(small, 0).keys() == {"xla", "kit", "copy"}
    results = {who: call() for who, call in compare.calls(small).items()}
    moved = {
        who: [x.shape for x in jax.tree.leaves(arrays)]
        for who, arrays in results.items()
    }
    assert moved["copy"] == moved["kit"]


def test_a_result_that_is_not_xlas():
    x = np.linspace(1, 2, 5, dtype=np.float32)
    cell = "relu/fwd/f32/5"
    compare.compare(cell, {"xla": x, "kit": x * (1 + 1e-5), "copy": -x})
    with pytest.raises(AssertionError, match=f"{cell}: kit and XLA disagree"):
        compare.compare(cell, {"xla": x, "kit": x * 1.001})


def test_strings_beside_jax(tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.setenv("XLA_FFI_KIT_THREADS", "1")
    monkeypatch.setattr(strings, "ROWS", (1, 3))
    file = tmp_path / "strings.json"
    options = ["--only", "smoothing", "--seconds", "0", "--json", str(file)]
    assert strings.main(options) == 0
    lines = json.loads(file.read_text())["lines"]
    assert [line[1] for line in lines] == ["1", "3"]
    assert all(map(all, lines))  # with kit::scan
    x = np.ones(3)
    with pytest.raises(AssertionError, match="a: JAX and the kit disagree"):
        strings.compare("a", [x * 1.01], [x])


def test_a_page_keeps_its_sentences(tmp_path, monkeypatch):
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    file = tmp_path / "a.md"
    file.write_text("# A\n\nA sentence.\n\nMeasured on 2020-01-01: old.\n")
    measuring.publish("a.md", measuring.table(["a", "b"], [["c", "1"]]))
    assert file.read_text().startswith("# A\n\nA sentence.\n\nMeasured on 20")
    assert file.read_text().endswith("\n| a | b |\n| --- | --- |\n| c | 1 |\n")
    assert "old" not in file.read_text()
    assert [measuring.duration(t) for t in (2, 0.0123, 4.56e-7)] == [
        "2.00 s",
        "12.3 ms",
        "0.456 us",
    ]
