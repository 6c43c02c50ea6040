"""A program: arrays, lines of Python, what wraps them, and how to judge."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import fuzz_values
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

T = TypeVar("T")

NAMESPACE = {"jax": jax, "jnp": jnp, "np": np}
# Each program runs with so many sets of values.
ROUNDS = 3


@dataclasses.dataclass
class Array:
    """An argument of a program.

    Attributes:
      name: of the variable.
      shape: of the array.
      dtype: the name of its dtype.
      kinds: of its values, one after the other in each round.
      lead: how many axes come before those that the kind is about.
      seed: of its values in the first round.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    kinds: tuple[str, ...]
    lead: int
    seed: int

    def make(self, round_: int) -> np.ndarray:
        kind = self.kinds[round_ % len(self.kinds)]
        seed = self.seed + round_
        return fuzz_values.make(kind, self.shape, self.dtype, seed, self.lead)


@dataclasses.dataclass
class Program:
    """A random program, as `Builder` writes it.

    Attributes:
      name: the name of accelerate that it is to exercise.
      arrays: its arguments.
      lines: assignments; the last one is the result.
      wrappers: lines that define f1 of f0, f2 of f1 and so on.
      judge: how results are compared, as `fuzz_judge.judge` has it.
      batch: how many axes of the results come before those of a matrix.
      x64: whether arrays of 64 bits are on.
      partitionable: JAX's option of random numbers.
      forced: whether break-even sizes are 1.
      exact: whether only exact names are on.
    """

    name: str
    arrays: list[Array] = dataclasses.field(default_factory=list)
    lines: list[str] = dataclasses.field(default_factory=list)
    wrappers: list[str] = dataclasses.field(default_factory=list)
    judge: str = "bits"
    batch: int = 0
    x64: bool = True
    partitionable: bool = True
    forced: bool = False
    exact: bool = True

    def source(self, keeps: bool = False) -> str:
        """The program as Python, which defines `f`.

        Args:
          keeps: whether operands are kept where XLA would compute them again.
        """
        names = [a.name for a in self.arrays if a.name != "weights"]
        lines = [f"def f0({', '.join(names)}):"]
        for line in self.lines:
            lines.append(f"    {line}")
            if keeps:
                variable = line.split(" = ")[0]
                kept = f"jax.lax.optimization_barrier({variable})"
                lines.append(f"    {variable} = {kept}")
        lines.append(f"    return {self.lines[-1].split(' = ')[0]}")
        lines += ["", *self.wrappers, f"f = f{len(self.wrappers)}"]
        return "\n".join(lines)

    def function(self, keeps: bool = False) -> Callable[..., Any]:
        """A new function, for which JAX has nothing compiled."""
        space = dict(NAMESPACE)
        exec(self.source(keeps), space)
        return space["f"]

    def arguments(self, round_: int) -> list[np.ndarray]:
        return [a.make(round_) for a in self.arrays]

    @contextlib.contextmanager
    def options(self) -> Iterator[None]:
        """JAX's options while it is built, compiled and run."""
        with (
            jax.enable_x64(self.x64),
            jax.threefry_partitionable(self.partitionable),
        ):
            yield


class Draw:
    """Choices that hypothesis makes; the first one is the simplest."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def below(self, limit: int) -> int:
        """An integer from 0 to `limit` - 1."""
        return self._draw(st.integers(0, limit - 1))

    def one_of(self, options: Sequence[T]) -> T:
        """One of the options."""
        return self._draw(st.sampled_from(options))

    def rarely(self, of: int = 4) -> bool:
        """True once in so many times."""
        return self.below(of) == of - 1


class Builder:
    """Writes a program line by line, and knows the type of each variable.

    Attributes:
      program: that it writes.
      draw: its choices.
      avals: the types of its variables.
      last: the name of the last variable.
      in_loop: whether the program will be in a loop.
    """

    def __init__(self, program: Program, draw: Draw) -> None:
        self.program = program
        self.draw = draw
        self.avals: dict[str, Any] = {}
        self.last = ""
        self.in_loop = False

    @property
    def aval(self) -> Any:
        """The type of the last variable; None if there is none."""
        return self.avals.get(self.last)

    def array(
        self,
        shape: tuple[int, ...],
        dtype: str,
        *kinds: str,
        lead: int = 0,
        name: str = "",
    ) -> str:
        """A new argument; returns the name of its variable."""
        name = name or f"a{len(self.program.arrays)}"
        first = self.draw.below(len(kinds))
        kinds = (*kinds[first:], *kinds[:first])
        seed = self.draw.below(2**31)
        array = Array(name, shape, dtype, kinds, lead, seed)
        self.program.arrays.append(array)
        self.avals[name] = jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))
        self.last = self.last or name
        return name

    def line(self, expression: str) -> None:
        """A line that assigns to a new variable; `{x}` is the last one."""
        expression = expression.replace("{x}", self.last)
        self.last = f"x{len(self.program.lines)}"
        self.program.lines.append(f"{self.last} = {expression}")
        names = list(self.avals)
        run = eval(f"lambda {', '.join(names)}: {expression}", dict(NAMESPACE))
        self.avals[self.last] = jax.eval_shape(run, *self.avals.values())
