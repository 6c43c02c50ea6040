"""What a rule of `accelerate()` has to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from jax.interpreters.mlir import ir

Lowered: TypeAlias = Sequence[ir.Value]


class Rule(Protocol):
    """How one of JAX's primitives is lowered to a handler of the kit.

    The functions take the primitive's parameters by keyword.
    """

    @property
    def TARGET(self) -> str:  # noqa: N802
        """The custom call target, of the kit's CPU library."""

    @property
    def PARAMETERS(self) -> Sequence[frozenset[str]]:  # noqa: N802
        """The sets of parameters that the primitive has in some release.

        With any other set, JAX's own rule stays.
        """

    @property
    def covers(self) -> Callable[..., bool]:
        """`covers(avals, **parameters)`: whether the handler is to run.

        It must give what XLA's own code gives, bit for bit, and sooner.
        """

    @property
    def partitions(self) -> Callable[..., bool]:
        """`partitions(avals, **parameters)`, where XLA may split the program.

        Whether sharded operands stay in place where XLA's own code leaves
        them there.
        """

    @property
    def lower(self) -> Callable[..., Lowered]:
        """`lower(ctx, *operands, **parameters)`: the call of the handler."""
