"""The names that `enable` takes, and the rules behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xla_ffi_accelerate._rule import Result, Rule
from xla_ffi_accelerate.argmax import Argmax
from xla_ffi_accelerate.bcoo_dot_general import BcooDotGeneral
from xla_ffi_accelerate.bcsr_dot_general import BcsrDotGeneral
from xla_ffi_accelerate.conv_general_dilated import (
    ConvGeneralDilated,
    KernelGradient,
    OtherDepthwise,
)
from xla_ffi_accelerate.cumlogsumexp import Cumlogsumexp
from xla_ffi_accelerate.cumulative import Cumulative, FloatCumulative
from xla_ffi_accelerate.dot_general import DotGeneral
from xla_ffi_accelerate.linalg import EIGH
from xla_ffi_accelerate.linalg import RULES as _LINALG
from xla_ffi_accelerate.math import RULES as _MATH
from xla_ffi_accelerate.random import (
    RandomBits,
    Threefry2x32,
    UnrolledThreefry,
)
from xla_ffi_accelerate.select_and_scatter_add import SelectAndScatterAdd
from xla_ffi_accelerate.sort import Sort
from xla_ffi_accelerate.top_k import TopK

_CONV = ConvGeneralDilated()

# A name may replace several primitives. Of the rules of one primitive the first
# that covers is taken; of two names, that which stands later is asked first.
RULES: dict[str, Sequence[Rule]] = {
    "argmax": [Argmax("max")],
    "argmin": [Argmax("min")],
    "bcoo_dot_general": [BcooDotGeneral()],
    "bcsr_dot_general": [BcsrDotGeneral()],
    "conv_general_dilated": [_CONV],
    "cumlogsumexp": [Cumlogsumexp()],
    "cummax": [Cumulative("max")],
    "cummin": [Cumulative("min")],
    "cumprod": [Cumulative("product"), FloatCumulative("product")],
    "cumsum": [Cumulative("sum"), FloatCumulative("sum")],
    "depthwise": [_CONV, OtherDepthwise(_CONV), KernelGradient()],
    "dot_general": [DotGeneral()],
    "eigh": [EIGH],
    "linalg": _LINALG,
    "math": _MATH,
    "random": [Threefry2x32(), UnrolledThreefry(), RandomBits()],
    "select_and_scatter_add": [SelectAndScatterAdd()],
    "sort": [Sort()],
    "top_k": [TopK()],
}

# A group stands for its names.
GROUPS: dict[str, Sequence[str]] = {
    "cumulative": ["cummax", "cummin", "cumprod", "cumsum"],
    "sparse": ["bcoo_dot_general", "bcsr_dot_general"],
}


def result(name: str) -> Result:
    """Close if any of a name's rules is."""
    is_exact = all(rule.RESULT == "exact" for rule in RULES[name])
    return "exact" if is_exact else "close"


def rules(names: frozenset[str]) -> Iterator[tuple[str, Rule]]:
    """The rules of the names, in the order in which they are asked."""
    for name in reversed(RULES):
        if name in names:
            yield from ((name, rule) for rule in RULES[name])


def names(function: str, *given: str, exact: bool) -> frozenset[str]:
    """The names, those of groups, or without any all that there are.

    Raises ValueError if one is not known.
    """
    if not given:
        return frozenset(n for n in RULES if not exact or result(n) == "exact")
    unknown = [
        n
        for n in given
        if not isinstance(n, str) or (n not in RULES and n not in GROUPS)
    ]
    if unknown:
        raise ValueError(
            f"{function}: names: expected any of "
            f"{', '.join(sorted([*RULES, *GROUPS]))}, got {unknown[0]!r}"
        )
    return frozenset(m for n in given for m in GROUPS.get(n, (n,)))
