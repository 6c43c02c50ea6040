"""Checks an operation's operands and results: dtypes, batch axes, aliases."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xla_ffi_kit import _check, _dtypes
from xla_ffi_kit._check import Shape, Typed
from xla_ffi_kit._dtypes import DType
from xla_ffi_kit.primitive.spec import OpSpec


def describe(
    names: Sequence[str], types: Sequence[tuple[Shape, object]]
) -> str:
    """Describes operands by name and type, for messages."""
    return ", ".join(
        f"{name} {dtype}{list(shape)}"
        for name, (shape, dtype) in zip(names, types, strict=True)
    )


def leading_shape(spec: OpSpec, operands: Sequence[Typed]) -> Shape:
    """The batch axes that all operands have; ValueError if they differ.

    A shared operand may have the first ones, or none.
    """
    leads: dict[int, Shape] = {}
    for i, (name, x, axes) in enumerate(
        zip(spec.operand_names, operands, spec.kernel_axes, strict=True)
    ):
        batch = len(x.shape) - axes
        if batch < 0:
            raise ValueError(
                f"{spec.name}: operand {name}: expected rank >= {axes}, got "
                f"rank {len(x.shape)}"
            )
        if batch and spec.vmap_method == "sequential":
            raise ValueError(
                f"{spec.name}: operand {name}: expected rank {axes} (vmap it "
                f"over more), got rank {len(x.shape)}"
            )
        leads[i] = tuple(x.shape[:batch])
    own = [i for i in leads if i not in spec.shared]
    if not own:
        return ()
    common = leads[own[0]]
    if spec.vmap_method == "expand_dims":
        common = _broadcast([leads[i] for i in own])
    for i, got in leads.items():
        if not _fits(
            spec, got, common[: len(got)] if i in spec.shared else common
        ):
            expected = "batch dimensions "
            if i in spec.shared:
                expected = "no batch dimensions, or the first ones of "
            raise ValueError(
                f"{spec.name}: operand {spec.operand_names[i]}: expected "
                f"{expected}{list(common)} as operand "
                f"{spec.operand_names[own[0]]} has, got {list(got)}"
            )
    return common


def _broadcast(leads: Sequence[Shape]) -> Shape:
    """Per axis, the first size that is not one."""
    rank = len(leads[0])
    alike = [lead for lead in leads if len(lead) == rank]
    return tuple(
        next((lead[i] for lead in alike if lead[i] != 1), 1)
        for i in range(rank)
    )


def _fits(spec: OpSpec, got: Shape, common: Shape) -> bool:
    if spec.vmap_method != "expand_dims":
        return got == common
    return len(got) == len(common) and all(
        size in (1, wanted) for size, wanted in zip(got, common, strict=True)
    )


def check_results(
    spec: OpSpec,
    operands: Sequence[Typed],
    results: Sequence[Typed],
    lead: Shape,
) -> None:
    """Checks what the reference returns against batch axes and aliases."""
    if any(not 0 <= i < len(results) for i in spec.shared_results):
        raise ValueError(
            f"{spec.name}: shared_results: expected result indices below "
            f"{len(results)}, got {spec.shared_results}"
        )
    for i, result in enumerate(results):
        if i in spec.shared_results:
            continue
        if tuple(result.shape[: len(lead)]) != lead:
            raise ValueError(
                f"{spec.name}: result {i} of the reference: expected batch "
                f"dimensions {list(lead)} as the operands have, got shape "
                f"{list(result.shape)}"
            )
    axes = [len(r.shape) - len(lead) for r in results]
    orders = [None if x is None else len(x) for x in spec.output_layouts]
    if orders and (
        len(orders) != len(axes)
        or any(n not in (None, m) for n, m in zip(orders, axes, strict=True))
    ):
        expected = f"an order of each result's kernel axes, {axes} of them"
        raise ValueError(
            spec.error("output_layouts", expected, list(spec.output_layouts))
        )
    for i, j in spec.input_output_aliases.items():
        if not isinstance(j, int) or not 0 <= j < len(results):
            expected = f"result indices below {len(results)}"
            raise ValueError(
                spec.error("input_output_aliases", expected, repr(j))
            )
        operand, result = operands[i], results[j]
        if (operand.shape, operand.dtype) != (result.shape, result.dtype):
            raise ValueError(
                f"{spec.name}: input_output_aliases: operand "
                f"{spec.operand_names[i]} is {type_name(operand)}, expected "
                f"{type_name(result)} as result {j} is"
            )


def type_name(x: Typed) -> str:
    """An array's type, for messages."""
    return f"{x.dtype}{list(x.shape)}"


def dtype_check(
    name: str,
    operand_names: Sequence[str],
    dtypes: Sequence[DType | Sequence[DType]],
    then: Callable[..., None] | None,
) -> Callable[..., None]:
    """A check of the operands' dtypes, before the author's own.

    Args:
      name: the name of the operation.
      operand_names: the names of the operands.
      dtypes: a dtype for all operands, or one for each, for every combination
        that the handlers take.
      then: the author's check.
    """
    where = f"{name}: dtypes"
    count = len(operand_names)
    allowed: list[list[str]] = []
    for entry in _check.sequence(where, dtypes):
        found = [dtype.name for dtype in _dtypes.parse_each(where, entry)]
        if len(found) == 1 and not isinstance(entry, list | tuple):
            found *= count
        if len(found) != count:
            raise ValueError(
                f"{where}: expected {count} in each entry, one per operand, "
                f"got {len(found)}"
            )
        allowed.append(found)
    if not allowed:
        raise ValueError(f"{where}: expected at least one, got none")

    def check(*operands: Typed, **attributes: object) -> None:
        left = allowed
        for i, operand in enumerate(operands):
            wanted = list(dict.fromkeys(entry[i] for entry in left))
            left = [entry for entry in left if entry[i] == operand.dtype.name]
            if not left:
                raise TypeError(
                    f"{name}: operand {operand_names[i]}: expected dtype "
                    f"{', '.join(wanted)}"
                    f"{f' as operand {operand_names[0]} has' if i else ''}, "
                    f"got {operand.dtype.name}"
                )
        if then is not None:
            then(*operands, **attributes)

    return check
