"""Other packages' RMS norms, where they are installed, each in a CUDA graph.

Their functions take (x, weight) or (x, weight, residual) as tensors of torch.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gpu_times

_EPS = 1e-6
Function = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Peer:
    """A package, and what it has of the operations of the benchmark.

    Attributes:
      forward: of x and a weight.
      residual: of x, a weight and a residual: the norm of the sum, and the sum.
    """

    forward: Function
    residual: Function | None = None


def _torch(torch: Any) -> Peer:
    norm = torch.nn.functional.rms_norm

    def residual(x: Any, weight: Any, residual: Any) -> tuple[Any, Any]:
        total = x + residual
        return norm(total, weight.shape, weight, _EPS), total

    return Peer(lambda x, weight: norm(x, weight.shape, weight, _EPS), residual)


def _compiled(torch: Any) -> Peer:
    plain = _torch(torch)
    return Peer(torch.compile(plain.forward), torch.compile(plain.residual))


def _liger(_: Any) -> Peer:
    ops = importlib.import_module("liger_kernel.ops.rms_norm")
    fused = importlib.import_module("liger_kernel.ops.fused_add_rms_norm")
    options = (_EPS, 0.0, "llama", False)
    return Peer(
        lambda x, weight: ops.LigerRMSNormFunction.apply(x, weight, *options),
        lambda x, weight, residual: fused.LigerFusedAddRMSNormFunction.apply(
            x, residual, weight, *options
        ),
    )


def _quack(_: Any) -> Peer:
    norm = importlib.import_module("quack").rmsnorm
    return Peer(
        lambda x, weight: norm(x, weight, eps=_EPS),
        lambda x, weight, residual: norm(
            x, weight, residual=residual, eps=_EPS, prenorm=True
        ),
    )


_PEERS: Mapping[str, Callable[[Any], Peer]] = {
    "torch": _torch,
    "torch.compile": _compiled,
    "liger": _liger,
    "quack": _quack,
}


def find() -> dict[str, Peer]:
    """The installed ones; says which are not."""
    found = {}
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        print(f"no peers: {error}", file=sys.stderr)
        return {}
    for name, make in _PEERS.items():
        try:
            found[name] = make(torch)
        except (ImportError, AttributeError) as error:
            print(f"no {name}: {error}", file=sys.stderr)
    return found


def _call(torch: Any, peer: Peer, operation: str) -> Function | None:
    """What makes a call of one set of operands, or None."""
    if operation == "weight":
        return peer.forward
    if operation == "residual":
        return peer.residual
    if operation != "weight_bwd":
        return None
    kept: dict[int, Any] = {}

    def backward(x: Any, ct: Any, weight: Any) -> Any:
        # The forward runs before the graph is captured, which has only this.
        if id(x) not in kept:
            kept[id(x)] = peer.forward(x, weight)
        return torch.autograd.grad(
            kept[id(x)], (x, weight), ct, retain_graph=True
        )

    return backward


class Contestant:
    """A peer's calls on several sets of operands, captured in one graph."""

    def __init__(
        self, call: Function, sets: Sequence[Sequence[Any]], seconds: float
    ) -> None:
        self._torch = torch = importlib.import_module("torch")
        self._sets = sets
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for operands in sets:  # compiles, and takes memory
                call(*operands)
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=stream):
            for operands in sets:
                call(*operands)
        self._repeats = 1
        self.sample()
        self._repeats = gpu_times.repeats_needed(
            self.sample().finished, seconds
        )

    def sample(self) -> gpu_times.Sample:
        """Replays the graph."""
        start = time.perf_counter()
        for _ in range(self._repeats):
            self._graph.replay()
        dispatched = time.perf_counter() - start
        self._torch.cuda.synchronize()
        finished = time.perf_counter() - start
        calls = self._repeats * len(self._sets)
        return gpu_times.Sample(dispatched, finished, calls)


def contestants(
    peers: Mapping[str, Peer],
    operation: str,
    shape: tuple[int, int],
    dtype: str,
    sets: int,
    seconds: float,
) -> dict[str, Contestant]:
    """Those that have the operation for rows of this length.

    Args:
      peers: what `find` found.
      operation: "weight", "weight_bwd", "residual", or another, of which there
        are none.
      shape: rows and their length.
      dtype: as JAX names it.
      sets: how many sets of operands.
      seconds: how long a sample lasts.
    """
    found = {}
    for name, peer in peers.items():
        torch = importlib.import_module("torch")
        call = _call(torch, peer, operation)
        if call is None:
            continue

        def make(*shape: int, torch: Any = torch) -> Any:
            made = torch.randn(
                shape, device="cuda", dtype=getattr(torch, dtype)
            )
            return made.requires_grad_(operation == "weight_bwd")

        arrays = 1 if operation == "weight" else 2
        operands = []
        for _ in range(sets):
            x, *others = (make(*shape) for _ in range(arrays))
            weight = make(shape[1])
            is_backward = operation == "weight_bwd"
            operands.append(
                (x, *others, weight) if is_backward else (x, weight, *others)
            )
        try:
            found[name] = Contestant(call, operands, seconds)
        except Exception as error:  # one that has no kernel for this length
            print(f"{name}: {operation} of {shape}: {error}", file=sys.stderr)
    return found
