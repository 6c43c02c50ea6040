"""Makes a program that fails simpler: fewer choices, smaller ones, values."""

import time
from collections.abc import Callable, Iterator

import numpy as np
from fuzz_build import build
from fuzz_run import Counter, Outcome, Pair, RaisedError, run


def shrink(outcome: Outcome, seconds: float) -> Outcome:
    """Returns the simplest failure that is found in some seconds.

    Args:
      outcome: a failure.
      seconds: how long to look for a simpler one.
    """
    end = time.monotonic() + seconds
    program = outcome.program
    counter = Counter()
    tried: set[tuple[int, ...]] = set()

    def fails(choices: list[int]) -> Outcome | None:
        if tuple(choices) in tried:
            return None
        tried.add(tuple(choices))
        try:
            found = run(build(program.name, program.seed, choices), counter)
        except Exception:  # no program: it mixes what does not fit
            return None
        return found if found.is_failure else None

    is_simpler = True
    while is_simpler and time.monotonic() < end:
        is_simpler = False
        for choices in _simpler(outcome.program.choices):
            if time.monotonic() > end:
                break
            found = fails(choices)
            if found and _size(found) < _size(outcome):
                outcome, is_simpler = found, True
                break
    try:
        return _with_simple_values(outcome)
    except RaisedError:
        return outcome


def _size(outcome: Outcome) -> tuple[int, int, list[int]]:
    """Programs are as simple as they are short; then as choices are small."""
    program = outcome.program
    elements = sum(int(np.prod(a.shape)) for a in program.arrays)
    lines = len(program.lines) + len(program.wrappers)
    return lines, elements, program.choices


def _simpler(choices: list[int]) -> Iterator[list[int]]:
    count = len(choices)
    for width in (8, 4, 2, 1):
        for start in range(0, count, width):
            yield [*choices[:start], *choices[start + width :]]
    for i, choice in enumerate(choices):
        for smaller in dict.fromkeys((0, choice // 2, choice - 1)):
            if 0 <= smaller < choice:
                yield [*choices[:i], smaller, *choices[i + 1 :]]


def _with_simple_values(outcome: Outcome) -> Outcome:
    """Replaces elements by zeros, then by ones, while it fails."""
    pair = Pair(outcome.program, Counter())
    arguments = [np.array(x) for x in outcome.arguments]

    def fails() -> bool:
        return pair.difference(arguments) is not None and not pair.excuse(
            arguments
        )

    kinds = [a.kinds[0].split(":")[0] for a in outcome.program.arrays]
    for x, kind in zip(arguments, kinds, strict=True):
        if kind in ("places", "starts", "below"):
            continue  # other indices would make no matrix
        _simplify(x.reshape(-1), fails)
    outcome.arguments = arguments
    outcome.difference = pair.difference(arguments) or outcome.difference
    return outcome


def _simplify(flat: np.ndarray, fails: Callable[[], bool]) -> None:
    """Halves, quarters and so on become zero, in place."""
    width = flat.size
    tries = 0
    while width and tries < 200:
        for start in range(0, flat.size, width):
            part = flat[start : start + width]
            before = part.copy()
            if not before.view(np.uint8).any():
                continue
            tries += 1
            part[...] = 0
            if not fails():
                part[...] = before
        width //= 2
