"""The number of elements from which a rule is faster than XLA's own code.

A rule costs one call, and then less than XLA's code for each element. The sizes
of the table were measured on two cores with AVX-512, in a loop that XLA
compiles to one function, where a call costs most. On one thread, and with
AVX2, only the sort of integers differs. `calibrate` measures the three costs on
the user's machine, with its threads and instructions, and keeps them in its
cache.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import jaxlib

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
    "sparse product": 256,  # products
    "top_k": 17,
}
# What differs without AVX-512, whose vectors sort twice as many at once.
_WITHOUT_AVX512: Mapping[str, int] = {"sort of integers": 96}
# How far from the table a measurement may lead: noise, or a changed XLA.
_RANGE = 4


@dataclasses.dataclass(frozen=True)
class Cost:
    """The costs of a rule and of XLA's own code.

    Attributes:
      call: the additional nanoseconds of a call of the rule, for any size.
      own: nanoseconds for each element in XLA's own code.
      rule: nanoseconds for each element in the rule.
    """

    call: float
    own: float
    rule: float

    def size(self) -> float:
        """The number of elements from which the rule is faster."""
        gain = self.own - self.rule
        return max(self.call, 0.0) / gain if gain > 0 else math.inf


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
    return at_least(math.ceil(_sizes()[name] * _loops.price()))


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
    where = " in a loop that is one function" if _loops.price() > 1 else ""
    return f"XLA is as fast for fewer than {least} {unit}{where}"


@functools.cache
def _sizes() -> Mapping[str, int]:
    sizes = dict(SIZES)
    if not _processor.has_avx512():
        sizes |= _WITHOUT_AVX512
    try:
        kept = json.loads(cache_file().read_text())
        known = kept["costs"].items()
        costs = {n: Cost(**cost) for n, cost in known if n in sizes}
        if kept["machine"] != machine():
            return sizes
    except (OSError, RuntimeError):  # there is none, or no home
        return sizes
    except (ValueError, KeyError, TypeError, AttributeError):  # not ours
        return sizes
    for name, cost in costs.items():
        least, most = max(SIZES[name] // _RANGE, 1), SIZES[name] * _RANGE
        sizes[name] = math.ceil(min(max(cost.size(), least), most))
    return sizes


def keep(costs: Mapping[str, Cost]) -> Path:
    """Writes the costs for this and later processes; returns the file."""
    file = cache_file()
    content = {n: dataclasses.asdict(c) for n, c in costs.items()}
    write(file, json.dumps({"machine": machine(), "costs": content}))
    _sizes.cache_clear()
    return file


def write(file: Path, text: str) -> None:
    """Writes a file of the cache: the whole of it, or nothing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}")
    part.write_text(text)
    part.replace(file)


def cache_file() -> Path:
    """Returns the file of the costs."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "xla_ffi_accelerate" / "costs.json"


@functools.cache
def machine() -> str:
    """Returns what the costs depend on: processor, threads and XLA."""
    threads = len(os.sched_getaffinity(0))
    return (
        f"{_processor.model()}, {threads} threads, jaxlib {jaxlib.__version__}"
    )
