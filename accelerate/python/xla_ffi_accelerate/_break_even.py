"""The number of elements from which a rule is faster than XLA's own code.

A rule costs one call, and then less than XLA's code for each element. The sizes
of the table were measured on two cores with AVX-512, in a loop that XLA
compiles to one function, where a call costs most. On one thread, and with
AVX2, only the sort of integers differs.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping

from xla_ffi_accelerate import _loops, _processor

SIZES: Mapping[str, int] = {
    "argmax of floats": 100,
    "argmax of integers": 256,
    "cumulative": 129,
    "depthwise convolution": 1024,  # products
    "gradient of pooling": 512,  # elements of all windows
    "linalg": 4,  # matrices
    "sort of floats": 16,
    "sort of integers": 33,
    "sort with payload": 17,
    "top_k": 17,
}
# What differs without AVX-512, whose vectors sort twice as many at once.
_WITHOUT_AVX512: Mapping[str, int] = {"sort of integers": 96}

_forced: list[int] = []


@contextlib.contextmanager
def forced() -> Iterator[None]:
    """While it is open, rules are used from one element on."""
    _forced.append(1)
    try:
        yield
    finally:
        _forced.pop()


def size(name: str) -> int:
    """The smallest size that is worth a call, where it is lowered."""
    count = SIZES[name]
    if not _processor.has_avx512():
        count = _WITHOUT_AVX512.get(name, count)
    return at_least(math.ceil(count * _loops.cost_of_call()))


def at_least(count: int) -> int:
    """A break-even size that is the same on all processors."""
    return 1 if _forced else count


def unless_worth(name: str, count: int, unit: str = "elements") -> str | None:
    """Returns why a rule is not used, unless a call is worth its cost."""
    return unless_at_least(size(name), count, unit)


def unless_at_least(least: int, count: int, unit: str) -> str | None:
    """Returns why a rule is not used, unless the count is large enough."""
    if count >= least:
        return None
    where = (
        " in a loop that is one function" if _loops.cost_of_call() > 1 else ""
    )
    return f"XLA is as fast for fewer than {least} {unit}{where}"
