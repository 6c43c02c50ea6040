"""Compiles programs with JAX's own code and the package's, and compares."""

import collections
import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

import fuzz_judge
import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from fuzz_operations import OPERATIONS
from fuzz_program import ROUNDS, Program

import xla_ffi_accelerate
from xla_ffi_accelerate import _break_even, _self_tests, registry
from xla_ffi_accelerate._rule import Rule
from xla_ffi_accelerate._scopes import Block, Change
from xla_ffi_accelerate._setting import Call
from xla_ffi_accelerate.rules.handlers import lines, sorting
from xla_ffi_accelerate.rules.loops import linalg

Compiled = Callable[..., Any]
# Break-even sizes that `_break_even.forced` does not know: short axes, and
# selections that XLA has an algorithm of its own for. XLA leaves out what is
# along one element, and in loops the first of two, whose subnormal numbers it
# then keeps.
FORCED = (
    (lines, "_MAX_WINDOW", 2),
    (lines, "_MIN_SEARCHED", 1),
    (lines, "_MIN_SEARCHED_BF16", 1),
    (lines, "_MIN_COLUMNS", 1),
    (sorting, "_MIN_SIZE_F32", 1),
    (linalg, "_MIN_LONG", 1024),
    (linalg, "_MAX_ROWS_LONG", 8),
)


class Counter:
    """Counts, for each rule, the programs that were lowered to it.

    Attributes:
      programs: (name, rule) -> programs.
    """

    def __init__(self) -> None:
        self.programs = collections.Counter[tuple[str, Rule]]()
        self.met: set[tuple[str, Rule]] = set()

    def others(self) -> Iterable[tuple[str, Rule]]:
        return ()

    def add(self, call: Call, taken: tuple[str, Rule] | None) -> None:
        if taken is not None:
            self.met.add(taken)

    def end_program(self) -> int:
        """Counts what the program met; returns how many rules that were."""
        self.programs.update(self.met)
        count = len(self.met)
        self.met.clear()
        return count


@dataclasses.dataclass
class Outcome:
    """What a program showed.

    Attributes:
      program: that ran.
      rules: how many rules it was lowered to.
      difference: how the results differ; None if they do not.
      excuse: why that is no fault of the package; empty if it may be one.
    """

    program: Program
    rules: int = 0
    difference: str | None = None
    excuse: str = ""

    @property
    def is_failure(self) -> bool:
        return self.difference is not None and not self.excuse


@contextlib.contextmanager
def package(program: Program, counter: Counter) -> Iterator[None]:
    """The package as the program has it."""
    with contextlib.ExitStack() as stack:
        if program.forced:
            stack.enter_context(_break_even.forced())
            for module, name, value in FORCED:
                patch = mock.patch.object(module, name, value)
                stack.enter_context(patch)
        stack.enter_context(xla_ffi_accelerate.enabled(exact=program.exact))
        stack.enter_context(Block(Change(record=counter)))
        yield


def lower(program: Program, keeps: bool = False) -> Any:
    """Lowers a new function, under the setting of the thread."""
    function = program.function(keeps)
    arrays = [
        jax.ShapeDtypeStruct(a.shape, jnp.dtype(a.dtype))
        for a in program.arrays
    ]
    return jax.jit(function).lower(*arrays)


def compile_(program: Program, keeps: bool = False) -> Compiled:
    """Compiles a new function, under the setting of the thread."""
    compiled: Compiled = lower(program, keeps).compile()
    return compiled


def met(program: Program) -> set[tuple[str, Rule]]:
    """The rules that a program is lowered to; it does not run."""
    counter = Counter()
    with program.options(), package(program, counter):
        lower(program)
    return counter.met


class RaisedError(Exception):
    """A program that JAX compiles is not compiled with the package."""


class Pair:
    """A program, compiled with JAX's own code and with the package's.

    Attributes:
      rules: how many rules it was lowered to.
    """

    def __init__(self, program: Program, counter: Counter) -> None:
        self.program = program
        self._judge = program.judge
        with program.options():
            with xla_ffi_accelerate.disabled():
                self._own = compile_(program)
            try:
                with package(program, counter):
                    self._kit = compile_(program)
            except Exception as error:
                raise RaisedError(f"{type(error).__name__}: {error}") from error
        self.rules = counter.end_program()
        if not self.rules:  # then the two programs are the same
            self._judge = "bits"

    def plain(self, *arguments: np.ndarray) -> list[np.ndarray]:
        """The results of JAX's own code."""
        with self.program.options(), xla_ffi_accelerate.disabled():
            return fuzz_judge.leaves(self._own(*arguments))

    def difference(self, arguments: list[np.ndarray]) -> str | None:
        """How the results for some arguments differ, if they do."""
        want = self.plain(*arguments)
        with self.program.options(), xla_ffi_accelerate.disabled():
            got = fuzz_judge.leaves(self._kit(*arguments))
        return fuzz_judge.judge(
            self.program, self._judge, got, want, arguments, self.plain
        )

    def excuse(self, arguments: list[np.ndarray]) -> str:
        """Why a difference is not the package's fault, if it is not.

        JAX's own code is compiled again, as it is and with operands kept.
        """
        program = self.program
        nans = self._judge != "bits"
        kept = ["own", "kept"] if self._judge in fuzz_judge.BY_BITS else ["own"]
        want = self.plain(*arguments)
        with program.options(), xla_ffi_accelerate.disabled():
            got = fuzz_judge.leaves(self._kit(*arguments))
            for kind in kept:
                again = compile_(program, keeps=kind == "kept")
                found = fuzz_judge.leaves(again(*arguments))
                if kind == "own" and fuzz_judge.by_bits(found, want, nans):
                    return "JAX's own code differs from itself, compiled again"
                if kind == "kept" and not fuzz_judge.by_bits(found, got, nans):
                    return "XLA computes an operand again; kept, it agrees"
        return ""


def run(program: Program, counter: Counter) -> Outcome:
    """Runs a program for some sets of values."""
    try:
        pair = Pair(program, counter)
    except RaisedError as error:
        text = f"the package raises {error}"
        return Outcome(program, 0, text)
    outcome = Outcome(program, pair.rules)
    for round_ in range(ROUNDS):
        arguments = program.arguments(round_)
        found = pair.difference(arguments)
        if found is not None:
            outcome.difference = found
            outcome.excuse = pair.excuse(arguments)
            if not outcome.excuse:
                break
    return outcome


def rules() -> list[tuple[str, Rule]]:
    """The rules of names that have programs, each with its name."""
    names = (name for name in registry.RULES if name in OPERATIONS)
    return [(name, rule) for name in names for rule in registry.RULES[name]]


def rule_name(name: str, rule: Rule) -> str:
    """A rule's primitive and what it is lowered to."""
    target = (rule.target or "plain HLO").rpartition(".")[2]
    return f"{name}: {rule.primitive_name} -> {target}"


def is_refused(rule: Rule) -> bool:
    """Whether the rule does not apply to this release of JAX or of XLA."""
    if rule.test is None:
        return False
    known = _self_tests.verified(rule.test)
    differs = known.get(jaxlib.__version__, {}) is None
    return differs or _self_tests.has_failed(rule)
