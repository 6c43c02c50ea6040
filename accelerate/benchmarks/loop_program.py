"""What the benchmark of loops runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Program:
    """A loop.

    Attributes:
      name: as the page has it.
      run: a function of arrays.
      arguments: the arrays. The last one's leading axis is that of the steps.
      has_gradient: whether `run` returns a number, whose gradient with respect
        to the first argument is a program too.
    """

    name: str
    run: Callable[..., Any]
    arguments: tuple[Any, ...]
    has_gradient: bool = False

    @property
    def steps(self) -> int:
        """How many steps it has."""
        return int(jnp.shape(self.arguments[-1])[0])

    def gradient(self) -> Program:
        """Its gradient, a program."""
        return Program(
            f"{self.name}, gradient", jax.grad(self.run), self.arguments
        )
