"""A package's library beside another build of it, by another compiler.

    tools/bazel run //benchmarks:libraries -- OTHER.so
        --only rms_norm/bwd sort --seconds 1

Both are loaded into this process and take turns. A ratio is the kit's time
divided by the other's, so above 1 the other is faster; results must have the
same bits. Cells whose function is called eagerly are left out.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import other_library
from cells import Cell
from compare import KIT, parser, select
from measure import Contestant, compiled_function, run_rounds, runner
from suite import Suite

_PREFIX = "other."


def _contestant(cell: Cell, name: str) -> Contestant | None:
    """None if the compiled program calls no handler of that library."""
    function, operands = cell.make()["kit"]
    compiled = compiled_function(function, operands)
    if f'custom_call_target="{name}' not in compiled.as_text():
        return None
    return Contestant(runner(compiled, operands, cell.regime))


def same_bits(a: Any, b: Any) -> bool:
    """Whether two trees of arrays are equal to the bit."""
    return all(
        np.asarray(x).tobytes() == np.asarray(y).tobytes()
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


def ratio(cell: Cell, own: str, seconds: float) -> tuple[float, bool] | None:
    """The own time divided by the other's, and whether the bits agree."""
    kit = _contestant(cell, own)
    with other_library.calls(_PREFIX):
        other = _contestant(cell, _PREFIX)
    if kit is None or other is None:
        return None
    same = same_bits(kit.run(), other.run())
    run_rounds([kit, other], seconds)
    pairs = zip(kit.seconds, other.seconds, strict=True)
    return statistics.median(a / b for a, b in pairs), same


def main(
    arguments: Sequence[str] | None = None,
    suite: Suite = KIT,
    own: str = "xla_ffi_kit.",
) -> int:
    """Compares; 1 if some bits differ. `own` begins the targets' names."""
    options = parser(__doc__.splitlines()[0])
    options.add_argument("other", metavar="OTHER.so")
    chosen = options.parse_args(arguments)
    jax.config.update("jax_enable_x64", True)
    os.chdir(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    other_library.register(chosen.other, _PREFIX)
    ratios = []
    different = 0
    for cell in select(suite, chosen.only):
        measured = None
        if cell.regime != "eager":
            measured = ratio(cell, own, chosen.seconds)
        if measured is None:
            continue
        found, same = measured
        ratios.append(found)
        different += not same
        verdict = "" if same else "  OTHER BITS"
        print(f"{found:6.3f}  {cell.name}{verdict}", flush=True)
    print(
        f"{len(ratios)} cells, median {statistics.median(ratios):.3f}, "
        f"least {min(ratios):.3f}, {different} with other bits"
    )
    return min(different, 1)


if __name__ == "__main__":
    sys.exit(main())
