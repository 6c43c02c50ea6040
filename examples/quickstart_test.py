"""The quickstart's results, by NumPy; that it sees what differs; its table."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import jax
import numpy as np
import pages
import pytest

import quickstart

TEXT = quickstart.read_manual()[:150_000]


def pooled(x):
    """(isotonic regression, the block of each place) by pooling neighbors."""
    blocks = []
    for value in x:
        blocks.append([value, 1])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [[(a * n + b * m) / (n + m), n + m]]
    means, lengths = zip(*blocks, strict=True)
    return np.repeat(means, lengths), np.repeat(range(len(means)), lengths)


def filtered(y):
    """The Kalman filter of `trend`."""
    move = np.eye(8, k=-1)
    move[0] += 1 / 8
    mean, cov, levels = np.zeros(8), 100 * np.eye(8), []
    for value in y:
        mean, cov = move @ mean, move @ cov @ move.T + np.eye(8)
        gain = cov[0] / (cov[0, 0] + 100)
        mean = mean + gain * (value - mean[0])
        cov = cov - np.outer(gain, cov[0])
        levels.append(mean[0])
    return levels


@pytest.fixture(scope="module")
def rows():
    return quickstart.measure(TEXT)


def test_bits_of_words():
    # 3 of 4 words begin with "a", after which "b" comes twice and "c" once.
    bits = quickstart.spell(["b", "ab", "ac", "ab"])
    a, b = np.log2(4 / 3), np.log2(4)
    want = [a + np.log2(3 / 2), b, a + np.log2(3)]  # of ab, b, ac
    np.testing.assert_allclose(bits, want, rtol=1e-14)


def test_results_are_numpys(rows):
    words = re.findall("[a-z]+", TEXT)
    bits = quickstart.spell(words)[:1000]
    fitted, block = pooled(bits)
    assert len(set(block)) > 5
    weights = np.cos(np.arange(bits.size))
    sums, counts = (np.bincount(block, w) for w in (weights, None))
    parts = [quickstart.spell([*p])[:400] for p in np.array_split(words, 8)]
    by_part = np.stack([pooled(part)[0] for part in parts])
    lengths = [len(s.split()) for s in re.split(r"[.:!?]\s", TEXT)]
    gradient = (sums / counts)[block]
    want = [fitted] * 3 + [gradient, by_part, by_part, filtered(lengths)]
    for row, expected in zip(rows, want, strict=True):
        assert row.same, row.name
        for result in row.results:
            np.testing.assert_allclose(result, expected, 1e-9, 1e-9, row.name)


def test_each_device_keeps_its_rows(rows):
    for result in rows[5].results:
        shards = {
            shard.device: shard.data for shard in result.addressable_shards
        }
        assert [len(data) for data in shards.values()] == [2, 2, 2, 2]
    program = quickstart.compiled(quickstart.isotonic, rows[5].results[1])
    assert "all-gather" not in program.as_text()


def test_accelerate_writes_the_products_out():
    lengths = np.ones(9)
    with quickstart.xla_ffi_accelerate.disabled():
        assert dots(lengths) == 3
    assert dots(lengths) == 1


def dots(lengths):
    """The matrix products in the filter's program, before XLA's passes."""
    lowered = jax.jit(quickstart.trend).lower(lengths)
    return lowered.as_text().count("stablehlo.dot_general")


@pytest.mark.parametrize("off", [0, 1e-6])
def test_a_difference_is_seen(monkeypatch, capsys, off):
    x = np.arange(3.0)
    row = quickstart.Row("a row", lambda x: x, lambda x: x + off, x)
    monkeypatch.setattr(quickstart, "measure", lambda text: [row])
    assert quickstart.main() == (1 if off else 0)
    said = capsys.readouterr().out
    assert re.search(r"^check_op: 2\d checks of the string passed", said)
    assert said.endswith("DIFFERENT\n" if off else "the same\n")


def without_figures(table):
    lines = re.sub(r"\d[\d.,]*", "N", table).splitlines()
    return [" ".join(line.split()) for line in lines]


def test_readme_shows_the_table(rows):
    shown = [b.text for b in pages.blocks("README.md") if b.language == "text"]
    (table,) = (without_figures(text)[-len(rows) :] for text in shown)
    assert table == without_figures("\n".join(map(str, rows)))


def test_without_bazel_it_builds_the_library(tmp_path):
    for name in ("quickstart.py", "quickstart_isotonic.cc"):
        shutil.copy(pathlib.Path(__file__).with_name(name), tmp_path)
    code = (
        "import quickstart as q;"
        "print(q.LIBRARY, q.SOURCE, q.from_library(q.np.eye(2)).tolist())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(["", *sys.path[1:]])},
        capture_output=True,
        text=True,
        check=True,
    )
    library, source, result = ended.stdout.split(maxsplit=2)
    assert pathlib.Path(source).parent == tmp_path
    assert pathlib.Path(library).parent != tmp_path
    assert result == "[[0.5, 0.5], [0.0, 1.0]]\n"
