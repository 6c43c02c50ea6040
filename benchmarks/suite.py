"""What one program of the benchmark measures, and where it publishes that."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from cells import Cell
from publish import Publication


@dataclasses.dataclass(frozen=True)
class Suite:
    """A benchmark.

    Attributes:
      cells: makes all cells, those of several kinds.
      quick: the names of a cell of each kind, for --quick.
      publication: the files that --publish writes.
      plot: the picture that it draws.
    """

    cells: Callable[[], Iterable[Cell]]
    quick: tuple[str, ...]
    publication: Publication
    plot: str
