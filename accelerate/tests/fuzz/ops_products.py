"""Programs of products: of small matrices, and of sparse ones."""

from collections.abc import Sequence

from fuzz_program import Builder
from fuzz_values import FINITE
from ops_rows import dtypes

_VALUES = ("small", "normal", "ties", "zeros", "subnormal", "specials")
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


def _sizes(b: Builder) -> tuple[int, int, int]:
    rows = b.draw.one_of((4, 1, 9, 40))
    columns = b.draw.one_of((5, 1, 8, 30))
    return rows, columns, b.draw.one_of((6, 300, 1, 0, 1100))


def _dense(b: Builder, length: int) -> tuple[int, ...]:
    width = b.draw.one_of((3, 0, 1, 17, -1))
    return (length,) if width < 0 else (length, width)


def bcoo(b: Builder) -> None:
    rows, columns, entries = _sizes(b)
    is_sorted = not b.draw.rarely(3)
    is_wide = b.draw.rarely(5)  # some elements are out of range
    lead = (2,) if b.draw.rarely(4) else ()
    dtype, index = dtypes(b, _FLOATS), dtypes(b, ["int32", "int64"])
    b.program.judge = "nans"
    data = b.array((*lead, entries), dtype, *_VALUES)
    kind = f"places:{rows + is_wide}:{columns + is_wide}:{int(is_sorted)}"
    at = b.array((*lead, entries, 2), index, kind, lead=len(lead))
    transposed = b.draw.rarely(3) and not lead
    length = rows if transposed else columns
    dense = b.array((*lead, *_dense(b, length)), dtype, *_VALUES)
    matrix = (
        f"sparse.BCOO(({data}, {at}), shape={(*lead, rows, columns)}, "
        f"indices_sorted={is_sorted})"
    )
    turned = ".T" if transposed else ""
    if lead:
        numbers = "(((2,), (1,)), ((0,), (0,)))"
        b.line(
            f"sparse.bcoo_dot_general({matrix}, {dense}, "
            f"dimension_numbers={numbers})"
        )
    else:
        b.line(f"{matrix}{turned} @ {dense}")


def bcsr(b: Builder) -> None:
    rows, columns, entries = _sizes(b)
    dtype, index = dtypes(b, _FLOATS), dtypes(b, ["int32", "int64"])
    b.program.judge = "nans"
    data = b.array((entries,), dtype, *_VALUES)
    at = b.array((entries,), index, f"below:{columns}")
    starts = b.array((rows + 1,), index, f"starts:{entries}")
    dense = b.array(_dense(b, columns), dtype, *_VALUES)
    b.line(
        f"sparse.BCSR(({data}, {at}, {starts}), shape={(rows, columns)}) "
        f"@ {dense}"
    )
