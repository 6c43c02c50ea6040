"""What makes derivatives of an operation that are operations themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import jax


class Differentiate(Protocol):
    """Makes the operation of a derivative.

    Attributes:
      over_rows: what runs instead of an operation that is a derivative itself,
        where its shared operands have batch axes. None for others.
    """

    over_rows: Callable[..., jax.Array | tuple[jax.Array, ...]] | None

    def jvp(
        self, active: Sequence[int], result_axes: Sequence[int], /
    ) -> Callable[..., jax.Array | tuple[jax.Array, ...]]:
        """The tangents of the results, linear in those of active operands.

        Only results that are floats have tangents.

        Args:
          active: the operands that have tangents.
          result_axes: the number of kernel axes of each such result.

        Returns:
          A function of all operands and then of the active ones' tangents. It
          returns an array or a tuple of arrays.
        """

    def targets(self) -> list[str]:
        """The custom call targets of all derivatives that are compiled."""

    def explain(self) -> str:
        """Where the derivatives come from, and those made so far."""
