"""Runs a program on the kernel and on the reference, and compares."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import textwrap
import time
import types
from collections.abc import Callable, Sequence

import jax

from xla_ffi_kit.errors import NotDifferentiableError
from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.op import python_signature
from xla_ffi_kit.op.spec import Result
from xla_ffi_kit.testing import _programs
from xla_ffi_kit.testing._case import Case
from xla_ffi_kit.testing._compare import difference
from xla_ffi_kit.testing._guard import GuardedCall, bits
from xla_ffi_kit.testing._host import Host, on_host, smaller_steps

Program = Callable[..., object]

_DIFFERENCES = (
    "; expected are finite differences of the host function, which are wrong "
    "where it has a kink nearby: if it has, try another case"
)

# Its annotations name types that nothing imports.
_SNIPPET = """\
from __future__ import annotations
import functools
import jax
import jax.numpy as jnp
import numpy as np
from numpy import inf, nan
from jax import export
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from xla_ffi_kit import export_checks
from xla_ffi_kit.testing import Case, differentiable, on_host, scalar

{sources}

op = ...  # the FfiOp named {name!r}
case = {case!r}
op = op.given(*case.given)
x = {operands}
v = case.operands(1)
f = functools.partial(op, **case.attributes)
got = {call}
# The same with f = functools.partial({like}) differs.
"""


class Failure(Exception):
    """A check that failed, with the call to copy."""

    def __init__(self, message: str, snippet: str = "") -> None:
        super().__init__(message)
        self.snippet = snippet


class Skipped(Exception):
    """A check that does not apply, for a reason that it states itself."""


@dataclasses.dataclass(frozen=True)
class Call:
    """A program, of a module named `_programs`, and its arguments."""

    program: Program  # called with those of f, x and v that it names
    batch: tuple[int | None, ...] | None = None  # where operands get an axis
    size: int = 3  # of the batch
    options: tuple[tuple[str, object], ...] = ()  # keyword arguments

    @classmethod
    def of(
        cls,
        program: Program,
        batch: tuple[int | None, ...] | None = None,
        size: int = 3,
        **options: object,
    ) -> Call:
        """The call with these options."""
        return cls(program, batch, size, tuple(options.items()))

    @property
    def names(self) -> list[str]:
        """The names, of f, x and v, that the program takes."""
        parameters = inspect.signature(self.program).parameters
        return [name for name in parameters if name in ("f", "x", "v")]

    def operands(self, case: Case) -> tuple[jax.Array, ...]:
        """Makes the operands again, because a program may donate them."""
        if self.batch is None:
            return case.operands()
        return case.batched(self.batch, self.size)

    def snippet(self, op: FfiOp[Result], case: Case) -> str:
        """Returns the call as a whole program, except for the operation."""
        operands = "case.operands()"
        if self.batch is not None:
            operands = f"case.batched({self.batch}, {self.size})"
        options = [f"{name}={value!r}" for name, value in self.options]
        assert isinstance(self.program, types.FunctionType)
        like = 'f, implementation="reference"'
        if op.spec.reference is None:
            like = "on_host(op, host), **case.attributes"
        return _SNIPPET.format(
            like=like,
            sources="\n\n".join(_sources(self.program, {}).values()),
            name=op.name,
            case=case,
            operands=operands,
            call=f"{self.program.__name__}({', '.join(self.names + options)})",
        )


def _sources(
    program: types.FunctionType, sources: dict[str, str]
) -> dict[str, str]:
    """Adds the source of a program, after those of programs that it calls.

    They are the words of its source that are no attributes.
    """
    source = inspect.getsource(program)
    for name in re.findall(r"(?<![.\w])\w+", source):
        called = program.__globals__.get(name)
        if (
            isinstance(called, types.FunctionType)
            and called.__module__.startswith(_programs.__name__)
            and called.__name__ not in (program.__name__, *sources)
        ):
            _sources(called, sources)
    sources[program.__name__] = source
    return sources


class Runner:
    """Runs programs over one case of one operation."""

    def __init__(
        self,
        op: FfiOp[Result],
        case: Case,
        factor: float,
        host: Host | None = None,
    ) -> None:
        self._every = op
        # Of these operands alone, if others may be given.
        operands = python_signature.all_operands(op.spec, case.given, {})
        self.op = op = op.given(*operands)
        self.spec = op.spec
        self.case = case
        self.host = host
        self.factor = factor
        # There is one object of each, so that `jax.jit(f)` is compiled once.
        f = functools.partial(op, **case.attributes)
        self._kernel = f
        self._reference: Program = functools.partial(
            f, implementation="reference"
        )
        if op.spec.reference is None and host is not None:
            like = on_host(op, host)
            self._reference = functools.partial(like, **case.attributes)
        self._expected: dict[Call, object] = {}
        self.guarded: GuardedCall | None = None  # of the case's operands

    def with_case(self, case: Case) -> Runner:
        """The same for another case."""
        return Runner(self._every, case, self.factor, self.host)

    @property
    def reference(self) -> Program:
        """What is compared with, with the case's attributes."""
        return self._reference

    def snippet(self, call: Call) -> str:
        """Returns the code that a failure of the call shows."""
        return call.snippet(self.op, self.case)

    def arguments(self, call: Call, *, reference: bool = False) -> list[object]:
        """Returns the arguments of a call's program."""
        values = {
            "f": self._reference if reference else self._kernel,
            "x": call.operands(self.case),
            "v": self.case.operands(1),
        }
        return [values[name] for name in call.names]

    def run(self, call: Call, *, reference: bool = False) -> object:
        """Runs a call and returns its results; raises Failure if it raises.

        Skipped if that of the reference is wanted and there is none.
        """
        if reference and self.spec.reference is None and self.host is None:
            raise Skipped("neither a reference nor host= to compare with")
        values = self.arguments(call, reference=reference)
        try:
            returned = call.program(*values, **dict(call.options))
            return jax.block_until_ready(returned)
        except NotDifferentiableError as error:
            raise Skipped(str(error)) from None
        except Exception as error:
            what = f"the {self.standard} raises " if reference else ""
            text = f"{what}{type(error).__name__}: {_first_line(error)}"
            if not reference and self._reference_raises(call, type(error)):
                self.needs_bytes()
                text += (
                    f"; so does the {self.standard} alone, under JAX's rules"
                )
            raise Failure(text, self.snippet(call)) from error

    def needs_bytes(self) -> None:
        """Skips what JAX cannot do with numbers that it packs in bytes."""
        if any(bits(x) < 8 for x in self.case.operands()):
            raise Skipped("JAX has no such program of numbers below 8 bits")

    def seconds(self, *, reference: bool = False) -> float:
        """How long processors work for a compiled call of the case."""
        f = self._reference if reference else self._kernel
        program, x = jax.jit(f), self.case.operands()

        def once() -> float:
            start = time.process_time()  # whatever else the machine does
            jax.block_until_ready(program(*x))
            return time.process_time() - start

        once()  # which may compile it
        return min(once() for _ in range(5))

    def _reference_raises(self, call: Call, expected: type[Exception]) -> bool:
        """Whether a call raises such an error also without the handler."""
        try:
            values = self.arguments(call, reference=True)
            jax.block_until_ready(call.program(*values, **dict(call.options)))
        except Exception as error:
            return type(error) is expected
        return False

    @property
    def standard(self) -> str:
        """The function that the operation is compared with."""
        return "host function" if self.spec.reference is None else "reference"

    def text(self, call: Call, *, reference: bool = False) -> str:
        """Runs a call that returns a text."""
        return str(self.run(call, reference=reference))

    def expected(self, call: Call) -> object:
        """Returns the reference's results for a call.

        They are computed once, because references take long to compile.
        """
        if call not in self._expected:
            self._expected[call] = self.run(call, reference=True)
        return self._expected[call]

    def same(
        self, call: Call, *, want: object = None, factor: float = 1
    ) -> None:
        """Runs a call on the kernel; raises Failure if the reference differs.

        `want` may be the reference's result, if another call that is compiled
        already has the same value.
        """
        if want is None:
            want = self.expected(call)
        got = self.run(call)
        if self._derived(factor) and self._differs(got, want, factor):
            with smaller_steps():
                want = self.run(call, reference=True)
        self.compare(call, got, want, factor=factor)

    def agree(self, got: object, want: object) -> bool:
        """Whether two results differ by rounding alone."""
        return self._differs(got, want, 1) is None

    def _derived(self, factor: float) -> bool:
        """Whether what is wanted is a derivative of a host function."""
        return factor > 1 and self.spec.reference is None

    def _differs(
        self,
        got: object,
        want: object,
        factor: float,
        slack: Sequence[float] = (),
    ) -> str | None:
        derived = self._derived(factor)
        return difference(got, want, factor * self.factor, derived, slack)

    def compare(
        self,
        call: Call,
        got: object,
        want: object,
        *,
        factor: float = 1,
        what: str = "",
        slack: Sequence[float] = (),
    ) -> None:
        """Failure, `what` first, if what `call` returned is not `want`.

        `slack` is what each result may differ by beside the tolerance.
        """
        problem = self._differs(got, want, factor, slack)
        if problem and self._derived(factor) and not what:
            problem += _DIFFERENCES
        if problem:
            raise Failure(what + problem, self.snippet(call))


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return textwrap.shorten(lines[0], 300)
