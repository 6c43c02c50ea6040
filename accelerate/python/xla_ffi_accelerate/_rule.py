"""Rules as data, which one mechanism (`_lowering`) reads."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import jax
from jax.core import ShapedArray

# exact: XLA's own bits. close: within a bound that docs/numerics.md states.
Result: TypeAlias = Literal["exact", "close"]
# What a test has found about XLA: more keyword arguments for a rule's `call`.
Found: TypeAlias = Mapping[str, int | str]
# None: the rule is to be used. A string: why JAX's own lowering stays.
Reason: TypeAlias = str | None
# What the shape function of an operation gets and returns.
Typed: TypeAlias = jax.ShapeDtypeStruct | jax.Array
Axes: TypeAlias = Sequence[int]
# The types of its operands, and its parameters.
Operation: TypeAlias = tuple[Sequence[ShapedArray], Mapping[str, object]]


@functools.cache
def _keywords(function: Callable[..., object]) -> Mapping[str, bool]:
    """The parameters that a function names, and whether it needs them.

    Raises TypeError if it takes others, too.
    """
    # What functools.partial gives is none of the primitive's.
    bound = getattr(inspect.unwrap(function), "keywords", {})
    found: dict[str, bool] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            raise TypeError(
                f"{function} takes **{name}: a function of a rule names every "
                "parameter that it takes"
            )
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            if name not in bound:
                found[name] = parameter.default is inspect.Parameter.empty
    return found


def call_with(
    function: Callable[..., Any],
    *arguments: object,
    parameters: Mapping[str, object],
) -> Any:
    """Calls a function of a rule with those of the parameters that it names."""
    names = _keywords(function)
    given = {name: parameters[name] for name in names if name in parameters}
    return function(*arguments, **given)


@dataclasses.dataclass(frozen=True, eq=False)
class SelfTest:
    """A comparison of a rule with XLA, if XLA's order of sums matters.

    Attributes:
      name: its line in the table of `_self_tests.VERIFIED`. A release that the
        line does not have is tested when a program first needs the rule.
      run: `run(rule, *key)` returns what it finds, or None if XLA computes in
        an order that the rule does not have. It may run on two threads at once.
      key: `key(*avals, **parameters)` returns what the result depends on, of
        the parameters that it names.
      depends_on_processor: whether processors with AVX-512 and those with AVX2
        have lines of their own in the table, and all others none.
    """

    name: str
    run: Callable[..., Found | None]
    key: Callable[..., tuple[object, ...]] = lambda *_: ()
    depends_on_processor: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Rule:
    """How one of JAX's primitives is lowered on the CPU instead.

    `covers` names every parameter of the primitive that the rule takes, as
    keywords; one with a default value is of some releases only. An operation
    with any other parameter, such as one that a newer JAX has added, stays
    JAX's own. The other functions get those parameters that they name.

    Attributes:
      primitive: where JAX has it: "jax.lax.sort_p", or only its name if no
        module has it.
      covers: `covers(*avals, **parameters)` returns why the rule is not used,
        or None if its results are as `exact` says and it is faster than XLA's
        own code. Shapes may be symbolic only without `target`.
      call: `call(*arrays, **parameters)`, a JAX function that replaces the
        primitive.
      exact: whether the results are XLA's own, bit for bit.
      target: the handler that `call` calls. None for plain HLO, which needs no
        library and is exported too.
      partitions: whether sharded operands stay in place if XLA's own code
        leaves them there. It is a function if this depends on the call.
      folds: whether XLA computes it while it compiles if all operands are
        constants. It may round in another order then, and runs for nothing.
      with_pad: `with_pad(pad, avals, parameters)` returns the operands and
        parameters of what XLA makes of the operation and of a `Pad` of its
        first operand. The rule has to cover that, too.
      test: the test that it has to pass on an unverified release of jaxlib.
      priority: of two rules that cover an operation, the one with the higher
        priority is used.

    Raises:
      TypeError: one of the functions takes parameters that it does not name.
    """

    primitive: str
    covers: Callable[..., Reason]
    call: Callable[..., jax.Array | Sequence[jax.Array]]
    exact: bool = True
    target: str | None = None
    partitions: bool | Callable[..., bool] = False
    folds: bool = False
    with_pad: Callable[..., Operation] | None = None
    test: SelfTest | None = None
    priority: int = 0

    def __post_init__(self) -> None:
        key = self.test and self.test.key
        for function in (self.covers, self.call, self.partitions, key):
            if callable(function):
                _keywords(function)

    @property
    def primitive_name(self) -> str:
        """What programs show of the primitive: "sort", of "jax.lax.sort_p"."""
        return self.primitive.rpartition(".")[2].removesuffix("_p")

    def unless_known(self, parameters: Mapping[str, object]) -> Reason:
        """Why the rule does not take just these parameters."""
        known = _keywords(self.covers)
        others = sorted(parameters.keys() - known.keys())
        missing = sorted(n for n in known if known[n] and n not in parameters)
        if others:
            return f"the rule does not know its parameter {', '.join(others)}"
        if missing:
            return f"it has no parameter {', '.join(missing)}"
        return None

    def reason(
        self, avals: Sequence[ShapedArray], parameters: Mapping[str, object]
    ) -> Reason:
        """Why JAX's own lowering stays; None if the rule covers the call."""
        return self.unless_known(parameters) or self.covers(
            *avals, **parameters
        )

    @property
    def sees_operands(self) -> bool:
        """Whether it depends on what makes the operands."""
        return self.folds or self.with_pad is not None

    def splits(
        self, avals: Sequence[ShapedArray], parameters: Mapping[str, object]
    ) -> bool:
        """`partitions` of a call."""
        if not callable(self.partitions):
            return self.partitions
        return bool(call_with(self.partitions, *avals, parameters=parameters))
