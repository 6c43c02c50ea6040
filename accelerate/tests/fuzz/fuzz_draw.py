"""Choices: what makes one random program differ from another."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class Stream:
    """Random integers that are the same on every machine.

    NumPy promises the raw bits of a generator, but not what it makes of them.
    """

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64([seed])

    def words(self, count: int) -> np.ndarray:
        """So many integers of 64 bits."""
        return self._bits.random_raw(count)

    def below(self, limit: int, *shape: int) -> np.ndarray:
        """Integers from 0 to `limit` - 1."""
        size = int(np.prod(shape, dtype=np.int64))
        words = self.words(size) % np.uint64(limit)
        return words.astype(np.int64).reshape(shape)

    def uniform(self, *shape: int) -> np.ndarray:
        """Numbers from 0 to 1."""
        size = int(np.prod(shape, dtype=np.int64))
        fractions = (self.words(size) >> np.uint64(11)) * 2.0**-53
        return fractions.reshape(shape)

    def bell(self, *shape: int) -> np.ndarray:
        """Almost normal numbers, between -6 and 6."""
        return self.uniform(12, *shape).sum(0) - 6


class Draw:
    """Choices, each an integer; a smaller one makes a simpler program.

    Attributes:
      choices: what was drawn so far.
    """

    def __init__(self, source: Callable[[int], int]) -> None:
        """`source` returns an integer that is less than its argument."""
        self._source = source
        self.choices: list[int] = []

    @classmethod
    def given(cls, choices: Sequence[int]) -> "Draw":
        """Returns these, and then zeros."""
        rest = iter(choices)
        return cls(lambda limit: next(rest, 0) % limit)

    def below(self, limit: int) -> int:
        """An integer from 0 to `limit` - 1."""
        self.choices.append(self._source(limit))
        return self.choices[-1]

    def one_of(self, options: Sequence[T]) -> T:
        """One of the options, of which the first is the simplest."""
        return options[self.below(len(options))]

    def rarely(self, of: int = 4) -> bool:
        """True once in so many times."""
        return self.below(of) == of - 1
