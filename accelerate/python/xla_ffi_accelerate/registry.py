"""The names that `enable` takes, and the rules behind them."""

from __future__ import annotations

from collections.abc import Sequence

from xla_ffi_accelerate._rule import Result, Rule
from xla_ffi_accelerate.rules.handlers import (
    convolution,
    linalg,
    lines,
    pooling,
    products,
    random,
    sorting,
)
from xla_ffi_accelerate.rules.loops import linalg as loops_linalg
from xla_ffi_accelerate.rules.loops import products as loops_products
from xla_ffi_accelerate.rules.loops import random as loops_random
from xla_ffi_accelerate.rules.loops import sorting as loops_sorting

# A name may replace several primitives.
RULES: dict[str, Sequence[Rule]] = {
    "argmax": [lines.ARGMAX],
    "argmin": [lines.ARGMIN],
    "conv_general_dilated": [convolution.EXACT],
    "cumsum": lines.CUMSUM,
    "dot_general": [products.DOT_GENERAL],
    "linalg": [*linalg.RULES, *loops_linalg.RULES],
    "loops": [loops_products.WRITTEN_OUT],
    "random": [random.THREEFRY, loops_random.UNROLLED, random.RANDOM_BITS],
    "select_and_scatter_add": [pooling.SELECT_AND_SCATTER_ADD],
    "sort": [loops_sorting.SORT, sorting.SORT],
    "top_k": [loops_sorting.TOP_K, sorting.TOP_K],
}


def result(name: str) -> Result:
    """Returns "close" if any rule of the name is close, else "exact"."""
    return "exact" if all(rule.exact for rule in RULES[name]) else "close"


def rules(names: frozenset[str]) -> list[tuple[str, Rule]]:
    """Returns the rules of the names, in the order in which they are tried."""
    found = [(name, r) for name in RULES if name in names for r in RULES[name]]
    return sorted(found, key=lambda pair: -pair[1].priority)


def names(function: str, *given: str, exact: bool) -> frozenset[str]:
    """Returns the names that are given; without any, all names.

    Raises ValueError if a name is not known.
    """
    if not given:
        return frozenset(n for n in RULES if not exact or result(n) == "exact")
    for name in given:
        if not isinstance(name, str) or name not in RULES:
            raise ValueError(
                f"{function}: names: {name!r} is no name of a rule, and JAX's "
                f"own code runs; expected any of {', '.join(sorted(RULES))}"
            )
    return frozenset(given)
