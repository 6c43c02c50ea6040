"""What a rule has to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from jax.interpreters.mlir import ir

from xla_ffi_accelerate._jax import Primitive

Lowered: TypeAlias = Sequence[ir.Value]
# exact: XLA's own bits. close: within a bound that docs/accelerate.md states.
Result: TypeAlias = Literal["exact", "close"]


class Rule(Protocol):
    """How one of JAX's primitives is lowered: to a handler, or to other HLO.

    The functions take the primitive's parameters by keyword.
    """

    @property
    def RESULT(self) -> Result:  # noqa: N802
        """How near the results are to those of XLA's own code."""

    @property
    def TARGET(self) -> str | None:  # noqa: N802
        """The custom call target, of the kit's CPU library.

        None for plain HLO, which needs no library and is exported too.
        """

    @property
    def PARAMETERS(self) -> Sequence[frozenset[str]]:  # noqa: N802
        """The sets of parameters that the primitive has in some release.

        With any other set, JAX's own rule stays.
        """

    def primitive(self) -> Primitive:
        """JAX's primitive; ChangedJaxError if this JAX has none."""

    @property
    def covers(self) -> Callable[..., bool]:
        """`covers(avals, **parameters)`: whether `lower` is to be used.

        It must give what RESULT says, and sooner than XLA's own code. Sizes
        are symbolic only for plain HLO.
        """

    @property
    def partitions(self) -> Callable[..., bool]:
        """`partitions(avals, **parameters)`, where XLA may split the program.

        Whether sharded operands stay in place where XLA's own code leaves
        them there.
        """

    @property
    def lower(self) -> Callable[..., Lowered]:
        """`lower(ctx, *operands, **parameters)`: what takes its place."""


@runtime_checkable
class SelfTested(Protocol):
    """A rule whose result depends on the order of XLA's sums.

    With a release of jaxlib that it has not been verified with, it is tested
    when a program that it covers is first lowered.
    """

    @property
    def VERIFIED(self) -> frozenset[str]:  # noqa: N802
        """The releases of jaxlib that it has been verified with."""

    def self_test(self) -> bool:
        """Whether this XLA agrees; takes some tenths of a second.

        `_self_test.same_bits` compares. It may run on two threads at once.
        """


@runtime_checkable
class OfModule(Protocol):
    """A rule of a primitive in a module that takes long to import.

    The primitive asks the rule once the program has imported the module.
    """

    @property
    def MODULE(self) -> str:  # noqa: N802
        """The module's name."""
