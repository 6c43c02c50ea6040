"""What the benchmark of loops runs."""

from __future__ import annotations

import dataclasses
import functools
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


@functools.cache
def programs() -> dict[str, Program]:
    """By their names, in the page's order."""
    import loop_dynamics
    import loop_filters
    import loop_operations

    found = {}
    for program in (*loop_filters.programs(), *loop_dynamics.programs()):
        found[program.name] = program
        if program.has_gradient:
            name = f"{program.name}, gradient"
            run = jax.grad(program.run)
            found[name] = Program(name, run, program.arguments)
    return found | {p.name: p for p in loop_operations.programs()}


def of_jax(name: str) -> Callable[[], Any]:
    """A call of a program."""
    return _call(programs()[name].run, name)


def by_hand(name: str) -> Callable[[], Any] | None:
    """A call of the C++ that there is for some."""
    import loop_by_hand

    run = loop_by_hand.functions().get(name)
    return run and _call(run, name)


def _call(run: Callable[..., Any], name: str) -> Callable[[], Any]:
    return functools.partial(jax.jit(run), *programs()[name].arguments)
