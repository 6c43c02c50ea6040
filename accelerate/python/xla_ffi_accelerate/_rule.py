"""Rules as data, which one mechanism (`_lowering`) reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import jax

# exact: XLA's own bits. close: within a bound that docs/numerics.md states.
Result: TypeAlias = Literal["exact", "close"]
# What a test has found about XLA: more keyword arguments for a rule's `call`.
Found: TypeAlias = Mapping[str, int | str]
# None: the rule is to be used. A string: why JAX's own lowering stays.
Reason: TypeAlias = str | None
# What the shape function of an operation gets and returns.
Typed: TypeAlias = jax.ShapeDtypeStruct | jax.Array
Axes: TypeAlias = Sequence[int]


@dataclasses.dataclass(frozen=True, eq=False)
class SelfTest:
    """A comparison of a rule with XLA, if XLA's order of sums matters.

    Attributes:
      name: its line in the table of `_self_tests.VERIFIED`. A release that the
        line does not have is tested when a program first needs the rule.
      run: `run(rule, *key)` returns what it finds, or None if XLA computes in
        an order that the rule does not have. It may run on two threads at once.
      key: `key(*avals, **parameters)` returns what the result depends on.
      depends_on_processor: whether processors with AVX-512 and those with AVX2
        have lines of their own in the table, and all others none.
    """

    name: str
    run: Callable[..., Found | None]
    key: Callable[..., tuple[object, ...]] = lambda *_, **__: ()
    depends_on_processor: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Rule:
    """How one of JAX's primitives is lowered on the CPU instead.

    The functions take the primitive's parameters by keyword.

    Attributes:
      primitive: where JAX has it: "jax.lax.sort_p", or only its name if no
        module has it.
      params: the sets of parameters that it has in some release. With any other
        set, JAX's own lowering stays.
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
      padded: `padded(pad, *avals, **parameters)`, as `covers`, of the `Pad`
        that has made the first operand, if there is one and XLA may fold it.
      test: the test that it has to pass on an unverified release of jaxlib.
      x64: whether `call` computes in double precision.
    """

    primitive: str
    params: Sequence[frozenset[str]]
    covers: Callable[..., Reason]
    call: Callable[..., jax.Array | Sequence[jax.Array]]
    exact: bool = True
    target: str | None = None
    partitions: bool | Callable[..., bool] = False
    padded: Callable[..., Reason] | None = None
    test: SelfTest | None = None
    x64: bool = False

    @property
    def primitive_name(self) -> str:
        """What programs show of the primitive: "sort", of "jax.lax.sort_p"."""
        return self.primitive.rpartition(".")[2].removesuffix("_p")


def params(*names: str) -> tuple[frozenset[str]]:
    """`Rule.params` of a primitive that has the same ones in each release."""
    return (frozenset(names),)
