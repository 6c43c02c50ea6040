"""The names that `enable` takes, and the rules behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xla_ffi_accelerate._rule import Result, Rule
from xla_ffi_accelerate.rules import (
    convolution,
    linalg,
    lines,
    pooling,
    products,
    random,
    small,
    sorting,
)

# A name may replace several primitives. The first rule of a primitive that
# covers a call is taken; of two names, the later one is asked first.
RULES: dict[str, Sequence[Rule]] = {
    "argmax": [lines.ARGMAX],
    "argmin": [lines.ARGMIN],
    "conv_general_dilated": [convolution.EXACT],
    "cumsum": lines.CUMSUM,
    "loops": [products.WRITTEN_OUT],
    "dot_general": [products.DOT_GENERAL],
    "linalg": [
        *linalg.WRITTEN_OUT,
        linalg.LU,
        linalg.CHOLESKY,
        linalg.TRIANGULAR_SOLVE,
        linalg.LONG_SOLVE,
        linalg.MANY_QR,
    ],
    "random": [random.THREEFRY, random.UNROLLED_THREEFRY, random.RANDOM_BITS],
    "select_and_scatter_add": [pooling.SELECT_AND_SCATTER_ADD],
    "sort": [small.SORT, sorting.SORT],
    "top_k": [small.TOP_K, sorting.TOP_K],
}

# A group stands for its names.
GROUPS: dict[str, Sequence[str]] = {}


def result(name: str) -> Result:
    """Returns "close" if any rule of the name is close, else "exact"."""
    return "exact" if all(rule.exact for rule in RULES[name]) else "close"


def rules(names: frozenset[str]) -> Iterator[tuple[str, Rule]]:
    """Returns the rules of the names, in the order in which they are tried."""
    for name in reversed(RULES):
        if name in names:
            yield from ((name, rule) for rule in RULES[name])


def names(function: str, *given: str, exact: bool) -> frozenset[str]:
    """Expands groups of names; without names, returns all names.

    Raises ValueError if a name is not known.
    """
    if not given:
        return frozenset(n for n in RULES if not exact or result(n) == "exact")
    for name in given:
        if not isinstance(name, str) or name not in {*RULES, *GROUPS}:
            raise ValueError(
                f"{function}: names: expected any of "
                f"{', '.join(sorted([*RULES, *GROUPS]))}, got {name!r}"
            )
    return frozenset(m for n in given for m in GROUPS.get(n, (n,)))
