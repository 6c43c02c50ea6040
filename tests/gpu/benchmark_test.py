"""The benchmark of the bundle: its arithmetic, and that it runs, on the CPU."""

import contextlib
import json
import sys
import types
import xml.etree.ElementTree

import gpu_benchmark
import gpu_cells
import gpu_peers
import gpu_plot
import gpu_times
import pytest
from gpu_times import Sample


def samples(**seconds):
    return {name: Sample(0.0, s, 10) for name, s in seconds.items()}


def test_every_call_finds_nothing_of_its_in_a_cache():
    for call_bytes in (1, 1 << 20, 100 << 20, 300 << 20, 1 << 33):
        sets = gpu_times.sets_needed(call_bytes)
        assert sets >= 2
        assert sets * call_bytes >= gpu_times.ROTATION_BYTES
        assert sets == 2 or (sets - 1) * call_bytes < gpu_times.ROTATION_BYTES


def test_repeats_fill_the_time():
    assert gpu_times.repeats_needed(0.01, 0.1) == 10
    assert gpu_times.repeats_needed(1.0, 0.1) == 1
    assert gpu_times.repeats_needed(0.0, 0.1) > 1000


def test_ratios_are_of_rounds_and_speeds_of_medians():
    rounds = [
        samples(kit=1.0, xla=2.0, copy=0.5),
        samples(kit=2.0, xla=4.0, copy=1.0),
        samples(kit=4.0, xla=12.0, copy=2.0),
    ]
    row = gpu_times.summarize("cell", 1000, rounds)
    assert row.ratios["xla"] == gpu_times.Ratio(2.0, 2.0, 2.5)
    assert row.ratios["copy"] == gpu_times.Ratio(0.5, 0.5, 0.5)
    assert "kit" not in row.ratios
    # A call takes a tenth of a sample.
    assert row.microseconds["kit"] == pytest.approx(2e5)
    assert row.gigabytes_per_second["kit"] == pytest.approx(1000 / 0.2 / 1e9)
    assert row.rounds == 3 and row.bytes == 1000 and row.host_bound == []


def test_one_round_is_its_own_quartiles():
    assert gpu_times.ratio([(3.0, 2.0)]) == gpu_times.Ratio(1.5, 1.5, 1.5)


def test_a_host_that_never_gets_ahead_is_marked():
    assert Sample(0.95, 1.0, 1).is_host_bound
    assert not Sample(0.5, 1.0, 1).is_host_bound
    late = {"kit": Sample(1.0, 1.0, 1), "xla": Sample(0.1, 1.0, 1)}
    row = gpu_times.summarize("cell", 1, [late, late])
    assert row.host_bound == ["kit"]


def test_bytes_are_those_of_all_operands_and_results():
    by_name = {cell.name: cell for cell in gpu_cells.cells(1 << 16)}
    x = 1 << 16
    assert by_name["relu/f32/16384"].bytes == 2 * x
    assert by_name["rms_norm/f32/16x1024"].bytes == 2 * x
    # scale, x, weight, ct, ct_sum, dx, dweight.
    assert by_name["residual_bwd/bf16/32x1024"].bytes == (
        4 * 32 + 4 * x + 2 * 2048
    )
    # 16 lengths of f32, 17 of bf16; few rows, and training steps.
    assert len(list(gpu_cells.cells(1 << 16))) == 7 * (16 + 17 + 5) + 2 * 2 + 2


def test_the_picture_is_well_formed():
    row = gpu_times.summarize(
        "a<b", 8, [samples(kit=1.0, xla=2.0, copy=1.0)] * 2
    )
    root = xml.etree.ElementTree.fromstring(gpu_plot.draw([row, row], "t & u"))
    texts = [element.text for element in root.iter() if element.text]
    assert "a<b" in texts and "t & u" in texts
    circles = [e for e in root.iter() if e.tag.endswith("circle")]
    assert len(circles) == 3 + 2 * 3


def test_it_runs(tmp_path, capsys, monkeypatch):
    # Small arrays: the numbers of a CPU mean nothing here.
    monkeypatch.setattr(gpu_times, "ROTATION_BYTES", 3 << 16)
    gpu_benchmark.main(
        [
            *("--only", "residual/f32/4x1024", "relu/bf16"),
            *("--array_bytes", str(1 << 14), "--seconds", "0.001"),
            *("--json", str(tmp_path / "b.json"), "--no-peers"),
            *("--plot", str(tmp_path / "b.svg")),
        ]
    )
    assert capsys.readouterr().out.count("x XLA") == 2
    written = json.loads((tmp_path / "b.json").read_text())
    assert written["machine"]["device"] and len(written["rows"]) == 2
    for row in written["rows"]:
        assert set(row["microseconds"]) == {"kit", "xla", "copy"}
        assert all(value > 0 for value in row["microseconds"].values())
    assert (tmp_path / "b.svg").read_text().startswith("<svg")


class FakeTensor:
    def __init__(self, shape):
        self.shape = shape

    def requires_grad_(self, _):
        return self

    def __add__(self, _):
        return self


class FakeTorch(types.ModuleType):
    """As much of torch as the peers use; counts the calls and the replays."""

    float32 = "f32"

    def __init__(self):
        super().__init__("torch")
        self.calls = self.replays = self.grads = 0
        self.nn = types.SimpleNamespace(
            functional=types.SimpleNamespace(rms_norm=self._norm)
        )
        self.autograd = types.SimpleNamespace(grad=self._grad)
        self.cuda = types.SimpleNamespace(
            Stream=lambda: None,
            stream=contextlib.nullcontext,
            graph=lambda graph, stream: contextlib.nullcontext(),
            CUDAGraph=lambda: types.SimpleNamespace(replay=self._replay),
            synchronize=lambda: None,
        )

    def randn(self, shape, device, dtype):
        assert device == "cuda" and dtype == "f32"
        return FakeTensor(shape)

    def compile(self, function):
        return function

    def _norm(self, x, shape, weight, eps):
        assert x.shape == (8, 64) and shape == weight.shape == (64,)
        self.calls += 1
        return x

    def _grad(self, y, of, ct, retain_graph):
        assert len(of) == 2 and of[1].shape == (64,) and retain_graph
        self.grads += 1

    def _replay(self):
        self.replays += 1


def test_peers_run_in_a_graph(monkeypatch, capsys):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    peers = gpu_peers.find()
    assert list(peers) == ["torch", "torch.compile"]
    assert "no liger: " in capsys.readouterr().err
    for operation, calls, grads in (
        ("weight", 2 * 2 * 3, 0),  # of two peers, before and in the graph
        ("residual", 2 * 2 * 3, 0),
        ("weight_bwd", 2 * 3, 2 * 2 * 3),
        ("rms_norm_bwd", 0, 0),
    ):
        torch.calls = torch.grads = torch.replays = 0
        found = gpu_peers.contestants(
            peers, operation, (8, 64), "float32", sets=3, seconds=1e-9
        )
        assert (torch.calls, torch.grads) == (calls, grads), operation
        assert list(found) == (list(peers) if calls else [])
        before = torch.replays
        assert all(c.sample().calls == 3 for c in found.values())
        assert torch.replays == before + len(found)


def test_a_peer_that_fails_is_left_out(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", FakeTorch())

    def fails(*_):
        raise ValueError("no kernel")

    peers = {"quack": gpu_peers.Peer(fails)}
    assert not gpu_peers.contestants(
        peers, "weight", (8, 64), "float32", sets=2, seconds=1e-9
    )
    assert "quack: weight of (8, 64): no kernel" in capsys.readouterr().err


def test_without_torch_there_are_no_peers(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert gpu_peers.find() == {}
    assert "no peers: " in capsys.readouterr().err


def test_the_contestants_are_apart():
    cell = next(gpu_cells.cells(1 << 16))
    for function, is_kit in ((cell.kit, True), (cell.xla, False)):
        sets = [tuple(gpu_benchmark._make(x, 0) for x in cell.operands)] * 2
        text = gpu_benchmark._over_sets(function).lower(sets).as_text()
        assert ("xla_ffi_kit.rms_norm" in text) == is_kit
        assert "optimization_barrier" in text


def test_unknown_cells_are_refused():
    with pytest.raises(SystemExit, match="no cell"):
        gpu_benchmark.main(["--only", "nothing"])
