"""The quickstart: a whole short run, and that its checks can fail."""

import itertools
import os
import pathlib
import re
import subprocess
import sys

import jax
import numpy as np
import pages
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import quickstart_calibrate as calibrate
import quickstart_model as model
import quickstart_ops as ops
import quickstart_repeats as repeats
import quickstart_report as report
import quickstart_text as text
import quickstart_train as train
from xla_ffi_kit.testing import Case, check_op

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)

STEPS = 5
# The whole run is as a user's is; what follows needs no fast programs.
SETTINGS = ("JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_FLAGS")


def run_quickstart(*arguments):
    # Not into the user's own cache.
    cache = {"XLA_FFI_KIT_CACHE": os.environ["TEST_TMPDIR"]}
    return subprocess.run(
        [
            sys.executable,
            str(pathlib.Path(__file__).with_name("quickstart.py")),
            *arguments,
        ],
        env={k: v for k, v in os.environ.items() if k not in SETTINGS}
        | {"PYTHONPATH": os.pathsep.join(sys.path)}
        | cache,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def short_run(tmp_path_factory):
    """(what a short run prints, the folder with its text and its plot)."""
    folder = tmp_path_factory.mktemp("run")
    corpus = text.read_text(None)
    words = corpus.decode(corpus.train[:60_000])
    (folder / "text").write_text(words, encoding="utf-8")
    result = run_quickstart(
        *("--steps", "8", "--text", str(folder / "text")),
        *("--plot", str(folder / "plot.svg")),
    )
    assert result.returncode == 0, result.stderr
    return result.stdout, folder


def test_short_run_trains(short_run):
    output, folder = short_run
    alphabet = text.read_text(str(folder / "text")).alphabet
    assert "step   1/8" in output
    assert "\r" not in output  # not a terminal
    row = r"^loss {} +(\d\.\d+) +(\d\.\d+) "
    before = re.search(row.format("before training"), output, re.M)
    after = re.search(row.format("after 8 steps"), output, re.M)
    for column in (1, 2):
        assert float(before[column]) == pytest.approx(
            np.log(len(alphabet)), abs=0.1
        )
        assert float(after[column]) < float(before[column]) - 0.5
    # Two blocks of two norms, and the last norm.
    for target in ("rms_norm_fwd", "rms_norm_bwd"):
        assert re.search(rf"^  {target} +5 calls, FFI 0\.2$", output, re.M)


def test_short_run_checks_the_operation(short_run):
    output, _ = short_run
    said = " ".join(output.split())
    checked = re.search(r"plain JAX: (\d+) checks passed: ([\w ,]+) A tr", said)
    assert int(checked[1]) >= 20
    want = {"values", "vmap", "grad", "auto mesh", "explicit mesh", "export"}
    assert want <= set(checked[2].split(", "))


def test_short_run_calibrates(short_run):
    output, _ = short_run
    said = re.search(r"by\n(.*) %, calibrated on .* by (.*) %\.$", output, re.M)
    # After 8 steps the model knows little, and is less sure than it may be.
    assert float(said[2]) < float(said[1]) < 50


def test_short_run_finds_a_passage_that_is_there_twice(short_run):
    output, folder = short_run
    said = re.search(
        r"twice, at ([\d,]+) and at ([\d,]+), has ([\d,]+) char", output
    )
    first, second, length = (int(s.replace(",", "")) for s in said.groups())
    corpus = text.read_text(str(folder / "text"))
    whole = np.concatenate([corpus.train, corpus.held_out])
    assert length > 100 and first < second
    passage = whole[first : first + length]
    np.testing.assert_array_equal(passage, whole[second : second + length])
    # No longer: neither to the left nor to the right.
    assert whole[first - 1] != whole[second - 1]
    assert whole[first + length] != whole[second + length]


def test_short_run_draws(short_run):
    _, folder = short_run
    assert "<svg" in (folder / "plot.svg").read_text()


def without_figures(table):
    lines = re.sub(r"\d[\d.,]*(e[+-]\d+)?", "N", table).splitlines()
    return [" ".join(line.split()) for line in lines if set(line) != {"-"}]


def test_a_page_shows_what_it_prints(short_run):
    output, _ = short_run
    printed = re.search(r"^ +plain JAX +the kit$(.*\n)+?\n", output, re.M)[0]
    blocks = pages.blocks("docs/performance.md")
    (shown,) = (b.text for b in blocks if b.language == "text")
    assert without_figures(shown) == without_figures(printed.rstrip())


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "expected a UTF-8 text file: .*No such file"),
        (b"\xff" * 30_000, "expected a UTF-8 text file: .*decode"),
        (b"Too short.", "expected at least 20000 characters, got 10"),
    ],
)
def test_unusable_text_is_refused_in_one_sentence(tmp_path, content, message):
    path = tmp_path / "text"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SystemExit, match=message) as error:
        text.read_text(str(path))
    assert str(error.value).startswith("quickstart: ")
    assert "\n" not in str(error.value)


def test_a_python_without_the_topics_is_told_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(
        SystemExit, match=r"no pydoc_data.topics .* --text FILE"
    ):
        text.read_text(None)


def test_relative_paths_start_where_bazel_was_called(tmp_path, monkeypatch):
    (tmp_path / "text").write_text("some words " * 3000, encoding="utf-8")
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    assert text.read_text("text").source == "text"


def test_text_round_trips_and_rare_characters_become_one(tmp_path):
    path = tmp_path / "text"
    rare = "".join(map(chr, range(0x4E00, 0x4E00 + 100)))
    path.write_text("some words \n" * 3000 + rare, encoding="utf-8")
    corpus = text.read_text(str(path))
    assert len(corpus.alphabet) == text.MAX_CHARACTERS + 1
    assert corpus.decode(corpus.train[:16]) == "some words some "
    assert text.STAND_IN in corpus.decode(corpus.held_out)
    for windows in itertools.islice(text.batches(corpus.train, 4, 9, 0), 3):
        assert windows.shape == (4, 9)
        for window in windows:
            assert corpus.decode(window) in "some words " * 3


def suffixes(characters):
    """The suffix array of a small text, and its longest repeat, by hand."""
    tails = [tuple(characters[i:]) for i in range(len(characters))]
    order = sorted(range(len(tails)), key=tails.__getitem__)
    pairs = itertools.pairwise(tails[i] for i in order)
    common = [len(os.path.commonprefix(pair)) for pair in pairs]
    return order, max(common)


@pytest.mark.parametrize("alphabet", [1, 2, 5])
def test_suffix_arrays_are_right(alphabet):
    random = np.random.default_rng(alphabet)
    characters = random.integers(alphabet, size=50, dtype=np.int32)
    found = repeats.suffix_array(characters, "test")
    order, longest = suffixes(characters.tolist())
    assert found.order.tolist() == order
    first, second, length = repeats.longest_repeat(found)
    assert length == longest and first < second
    np.testing.assert_array_equal(
        characters[first : first + length], characters[second : second + length]
    )


def test_other_suffix_arrays_are_a_problem():
    characters = np.arange(50, dtype=np.int32) ** 2 % 7
    plain = repeats.suffix_array(characters, "test")
    kit = plain._replace(handlers=True)
    assert repeats.result(kit, plain).problems == []
    wrong = kit._replace(order=kit.order[::-1])
    (problem,) = repeats.result(wrong, plain).problems
    assert problem == "the suffix array with accelerate is another one"
    (problem,) = repeats.result(plain, plain).problems
    assert problem.startswith("no handler of accelerate")
    (problem,) = repeats.result(kit, kit).problems
    assert problem == "plain JAX's program calls a handler of the kit"


def train_small(norm):
    """(trainer, loss before, loss after) of a few steps of a small model."""
    params = model.init_params(
        jax.random.key(0), alphabet=16, width=32, blocks=1, heads=2
    )
    trainer = train.Trainer(norm, params, mesh(), (8, 17), STEPS)
    characters = np.arange(400, dtype=np.int32) ** 2 % 16
    batches = text.batches(characters, 8, 17, seed=0)
    held_out = next(batches)
    before = trainer.evaluate(held_out)
    for windows in itertools.islice(batches, STEPS):
        trainer.step(windows)
    return trainer, before, trainer.evaluate(held_out)


def mesh():
    return jax.make_mesh((4,), ("batch",), axis_types=(AxisType.Auto,))


def problems(norm, plain):
    trainers, before, after = zip(train_small(norm), plain, strict=True)
    return report.problems(*trainers, before, after)


@pytest.fixture(scope="module")
def plain():
    return train_small(ops.plain_rms_norm)


def test_the_kit_has_no_problems(plain):
    assert problems(ops.rms_norm, plain) == []


def test_a_run_without_handlers_is_a_problem(plain):
    (problem,) = problems(ops.plain_rms_norm, plain)
    assert "no C++ handler" in problem


def wrong_value(x):
    return ops.rms_norm(x, eps=1e-2)


def not_a_number(x):
    return ops.rms_norm(x * np.nan)


def wrong_gradient(x):
    right = ops.rms_norm(x)
    return jax.lax.stop_gradient(right) + (x - jax.lax.stop_gradient(x))


def gathers(x):
    everywhere = NamedSharding(mesh(), PartitionSpec())
    return ops.rms_norm(jax.lax.with_sharding_constraint(x, everywhere))


@pytest.mark.parametrize(
    "norm, message",
    [
        (wrong_value, "before training differ by .*, expected at most 1e-05"),
        (not_a_number, "before training differ by nan"),
        (wrong_gradient, "in training differ by .*, expected at most 5e-04"),
        (gathers, "has [0-9]+ more all-gather than plain JAX"),
    ],
)
def test_a_wrong_norm_is_a_problem(norm, message, plain):
    assert re.search(message, "\n".join(problems(norm, plain)))


def by_hand(scores, targets):
    """(fitted, blocks) of a row, by the definition: min over max of means."""
    distinct, group = np.unique(scores, return_inverse=True)
    sums, counts = np.bincount(group, targets), np.bincount(group)

    def mean(a, b):
        return sums[a:b].sum() / counts[a:b].sum()

    n = distinct.size
    fitted = [
        max(min(mean(a, b) for b in range(i + 1, n + 1)) for a in range(i + 1))
        for i in range(n)
    ]
    blocks = np.cumsum(np.diff(fitted, prepend=fitted[0]) > 1e-9)
    return np.array(fitted)[group], blocks[group]


ROWS = {
    "random": lambda random: random.normal(size=(2, 9)),
    "ties": lambda random: random.integers(3, size=(2, 9)),
    "falling": lambda random: -np.arange(9.0),
    "rising": lambda random: np.arange(9.0),
    "one value": lambda random: np.zeros(9),
}


@pytest.mark.parametrize("targets", ROWS)
@pytest.mark.parametrize("scores", ROWS)
@pytest.mark.parametrize(
    "isotonic",
    [
        jax.jit(lambda *x, f=f: f(*x))
        for f in (ops.isotonic, ops.plain_isotonic, ops.first_isotonic)
    ],
    ids=["C++", "the best", "the first"],
)
def test_isotonic_regression(isotonic, scores, targets):
    random = np.random.default_rng(0)
    x, y = (
        np.broadcast_to(ROWS[kind](random), (2, 9)).astype(np.float32)
        for kind in (scores, targets)
    )
    fitted, blocks = isotonic(x, y)
    for i in range(2):
        value, block = by_hand(x[i], y[i])
        np.testing.assert_allclose(fitted[i], value, 1e-5, 1e-6)
        np.testing.assert_array_equal(blocks[i], block)


def test_many_long_rows_on_all_threads():
    random = np.random.default_rng(0)
    x, y = random.normal(size=(2, 12, 5000)).astype(np.float32)
    results = ops.isotonic(x, y), ops.plain_isotonic(x, y)
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, 1e-4, 1e-5)


def test_contract_of_isotonic_regression():
    scores = np.array([[0.3, 0.1, 0.5, 0.2], [1.0, 3.0, 2.0, 4.0]], np.float32)
    targets = np.array([[1.0, 4.0, 2.0, 8.0], [1.0, 2.0, 4.0, 8.0]], np.float32)
    # Whatever else follows from the average, and takes long to compile.
    slow = {"second order", "jacobians", "vmap of grad"}
    assert check_op(ops.isotonic, [Case(scores, targets)], skip=slow)
    blocks = np.array([[0, 1, 1, 0], [0, 0, 0, 0]], np.int32)
    assert check_op(ops.block_average, [Case(blocks, targets)])


@pytest.mark.parametrize("number", [-1, 4])
def test_numbers_of_no_block_are_refused(number):
    blocks = np.array([0, number, 1, 1], np.int32)
    with pytest.raises(Exception, match="operand blocks: expected numbers"):
        ops.block_average(blocks, np.ones(4, np.float32))


def test_another_regression_is_a_problem():
    random = np.random.default_rng(0)
    data = calibrate.Predictions(*random.random((2, 50), np.float32))
    plain = calibrate.fit(ops.plain_isotonic, data, "test")
    kit = calibrate.fit(ops.isotonic, data, "test")
    assert calibrate.result(kit, plain, plain).problems == []
    wrong = kit._replace(gradient=-kit.gradient)
    for fits in (
        (wrong, plain, plain),
        (kit, wrong, plain),
        (kit, plain, wrong),
    ):
        (problem,) = calibrate.result(*fits).problems
        assert problem == (
            "isotonic regression's gradients by C++ are others than plain JAX's"
        )
    (problem,) = calibrate.result(plain, plain, plain).problems
    assert problem == "the C++ handler is not in the compiled program"


def test_calibration_finds_what_a_confidence_is_worth():
    random = np.random.default_rng(0)
    confidence = random.random(20_000, np.float32)
    right = (random.random(20_000) < confidence**2).astype(np.float32)
    known = calibrate.Predictions(confidence[:10_000], right[:10_000])
    other = confidence[10_000:], right[10_000:]
    better = calibrate.calibrate(known, other[0])
    assert calibrate.error(*other) > 0.1
    assert calibrate.error(better, other[1]) < 0.02
