"""The kit beside XLA's own code, the tutorial's loop and a copy.

The command line: bench/command.py. Sizes, regimes and what is beside what:
cells.py.
"""

from __future__ import annotations

import sys

from bench import command
from bench.gate import Target
from cells import kit_cells
from kit_page import KIT


def _rms(rest: str, xla: float, loop: float, **slower: float) -> Target:
    bounds = {
        name.replace("_huge", ", huge pages"): v for name, v in slower.items()
    }
    return Target(f"rms_norm/{rest}", {"xla": xla, "tutorial": loop}, bounds)


_MIDDLE = ("1024x1024", "64x65536", "65536x64")

TARGETS = (
    _rms("fwd/f32/8x4/fresh", 1.15, 0.97),
    _rms("fwd/f32/1024x1024/fresh", 1.5, 2.5, copy=2.0),
    _rms("fwd/f32/4096x4096/fresh", 1.3, 3.3, copy_huge=1.1),
    _rms("fwd/f32/4096x4096/donated", 5, 12, copy=1.0),
    _rms("fwd/f32/64x65536/fresh", 1.6, 3.5, copy=1.6),
    _rms("fwd/f32/65536x64/fresh", 1.7, 2.2, copy=1.25),
    _rms("bwd/f32/1024x1024/fresh", 2.3, 2),
    _rms("bwd/f32/64x65536/fresh", 4, 3),
    _rms("bwd/f32/65536x64/fresh", 2.8, 1.9),
    *(
        _rms(f"{direction}/{dtype}/{shape}/fresh", xla, 4)
        for direction, xla in (("fwd", 1.7), ("bwd", 6))
        for dtype in ("bf16", "f16")
        for shape in _MIDDLE
    ),
    *(_rms(f"fwd/f32/{shape}/grad", 2, 4) for shape in _MIDDLE),
)

SUITE = command.Suite(
    kit_cells,
    (
        "rms_norm/fwd/f32/1024x1024/fresh",
        "rms_norm/bwd/f32/1024x1024/fresh",
        "rms_norm/fwd/bf16/1024x1024/fresh",
        "rms_norm/fwd/f32/64x256/chain",
        "relu/fwd/f32/1024x1024/fresh",
        "modular_add/fwd/f32/1024x1024/fresh",
    ),
    KIT,
    TARGETS,
    "xla_ffi_kit.",
)

if __name__ == "__main__":
    sys.exit(command.main(SUITE, __file__))
