"""Programs of products of small matrices."""

from collections.abc import Sequence

from fuzz_program import Builder
from fuzz_values import FINITE
from ops_rows import dtypes

# XLA's own products that are subnormal depend on the thread: some flush them.
_NOT_SMALL = ("small", "normal", "ties", "zeros", "large")
_FLOATS = ["float32", "float64"]
# Operands' axes: b of the batch, summed over k.
_EQUATIONS = (
    *("bmk,bkn->bmn", "bkm,bkn->bmn", "bmk,bnk->bmn", "bkm,bnk->bnm"),
    *("mbk,kbn->bmn", "bmk,bkn->nbm", "bimk,bikn->bimn", "bmik,bkin->bmn"),
)


def _product(b: Builder, count: int, sides: Sequence[int], *kinds: str) -> None:
    equation = b.draw.one_of(_EQUATIONS)
    sizes = dict(zip("bimkn", (count, 2, *sides), strict=True))
    dtype = dtypes(b, _FLOATS)
    operands = equation.split("->")[0].split(",")
    names = [
        b.array(tuple(sizes[axis] for axis in axes), dtype, *kinds)
        for axes in operands
    ]
    if b.draw.rarely(5) and operands[0] == operands[1]:
        names[1] = names[0]
    b.line(f"jnp.einsum('{equation}', {names[0]}, {names[1]})")


def dot_general(b: Builder) -> None:
    """Matrices of up to 7 rows: many of them, or a few that a loop has."""
    count = b.draw.one_of((1, 8, 2) if b.in_loop else (8, 9, 40, 100, 7, 0))
    sides = (4, 5, 6, 7, 5, 6, 7, 4, 3, 2, 1, 8)
    sides = [b.draw.one_of(sides) for _ in range(3)]
    b.program.judge = "nans"
    _product(b, count, sides, *_NOT_SMALL)


def loops(b: Builder) -> None:
    """A few matrices of up to 12 rows."""
    count = b.draw.one_of((1, 2, 3))
    sides = [b.draw.one_of((8, 4, 12, 9, 5, 2, 1)) for _ in range(3)]
    b.program.judge = "linear"
    _product(b, count, sides, *FINITE)
