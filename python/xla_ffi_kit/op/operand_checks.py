"""Checks an operation's operands and results: dtypes, batch axes, aliases."""

from __future__ import annotations

from collections.abc import Sequence

from xla_ffi_kit import _dtypes
from xla_ffi_kit._check import Shape, Typed
from xla_ffi_kit.op import contract
from xla_ffi_kit.op.spec import OpSpec


def describe(spec: OpSpec, operands: Sequence[Typed]) -> str:
    """Describes operands by name and type, for messages."""
    pairs = zip(spec.operand_names, operands, strict=True)
    return ", ".join(f"{name} {type_name(x)}" for name, x in pairs)


def leading_shape(spec: OpSpec, operands: Sequence[Typed]) -> Shape:
    """The batch axes that all operands have; ValueError if they differ.

    A shared operand may have the first ones, or none.
    """
    leads: dict[int, Shape] = {}
    for i, (name, x, axes) in enumerate(
        zip(spec.operand_names, operands, spec.kernel_axes, strict=True)
    ):
        rank = len(x.shape)
        batch = rank - axes
        if batch < 0:
            raise ValueError(
                spec.error(f"operand {name}", f"rank >= {axes}", f"rank {rank}")
            )
        leads[i] = tuple(x.shape[:batch])
    own = [i for i in leads if i not in spec.shared]
    if not own:
        return ()
    common = leads[own[0]]
    ones = len(common) if spec.advanced.vmap_method == "expand_dims" else 0
    if spec.loops:
        ones = spec.depth(operands)
    if ones:
        rest = (1,) * len(common)
        common = _broadcast(
            [
                leads[own[0]],
                *((*lead, *rest[len(lead) :]) for lead in leads.values()),
            ]
        )
    for i, got in leads.items():
        if i in spec.shared:
            fits = got == common[: len(got)]
        else:
            fits = _fits(got, common, ones)
        if not fits:
            expected = "batch dimensions "
            if i in spec.shared:
                expected = "no batch dimensions, or the first ones of "
            first = spec.operand_names[own[0]]
            expected += f"{list(common)} as operand {first} has"
            what = f"operand {spec.operand_names[i]}"
            shown = f"{list(got)}{_as_shared(spec, own[0], common, i, got)}"
            raise ValueError(spec.error(what, expected, shown))
    return common


def check_no_batch(spec: OpSpec, operands: Sequence[Typed]) -> None:
    """ValueError for batch axes of a call that only `vmap` may give them."""
    for i, x in enumerate(operands if spec.is_sequential else ()):
        axes, rank = spec.kernel_axes[i], len(x.shape)
        if rank > axes:
            what = f"operand {spec.operand_names[i]}"
            expected = f"rank {axes} (vmap it over more)"
            raise ValueError(spec.error(what, expected, f"rank {rank}"))


def _as_shared(
    spec: OpSpec, first: int, common: Shape, i: int, got: Shape
) -> str:
    """The remedy if one of two operands has no batch axes, else ""."""
    if bool(common) == bool(got) or i in spec.shared:
        return ""
    if spec.advanced.vmap_method != "broadcast_all":
        return ""
    alone = spec.operands[first if got else i]
    return (
        f"; broadcast {alone.name}, or make the operation with "
        f"shared={alone.parameter!r}"
    )


def _broadcast(leads: Sequence[Shape]) -> Shape:
    """Per axis, the first size that is not one."""
    rank = len(leads[0])
    alike = [lead for lead in leads if len(lead) == rank]
    return tuple(
        next((lead[i] for lead in alike if lead[i] != 1), 1)
        for i in range(rank)
    )


def _fits(got: Shape, common: Shape, ones: int) -> bool:
    """Whether sizes are the common ones, or of the first `ones` axes, one."""
    return len(got) == len(common) and all(
        size == wanted or (axis < ones and size == 1)
        for axis, (size, wanted) in enumerate(zip(got, common, strict=True))
    )


def check_places_of_results(spec: OpSpec) -> None:
    """ValueError if two operands share one result, or one has two layouts.

    Of a whole spec, and of calls with some operands: which result an index
    means may depend on these.
    """
    owners: dict[int, str] = {}
    for i, j in spec.input_output_aliases.items():
        operand = spec.operands[i]
        first, second, out = owners.get(j), operand.name, "one of them"
        if operand.is_repeated:
            second, third = (f"{operand.name}[{k}]" for k in range(2))
            if first is None:
                first, second, out = second, third, operand.name
        if first is not None:
            expected = f"one operand for the buffer of {_result(spec, j)}"
            got = f"{first} and {second}; take {out} out of aliases"
            raise ValueError(spec.error("aliases", expected, got))
        owners[j] = second
    named: dict[int | None, str | int] = {}
    for name in spec.advanced.output_layouts:
        index = spec.result_index(name)
        if index is not None and index in named:
            expected = f"one order for {_result(spec, index)}"
            got = f"two, for {named[index]!r} and {name!r}"
            raise ValueError(spec.error("output_layouts", expected, got))
        named[index] = name


def _result(spec: OpSpec, index: int) -> str:
    """A result, for messages: by its index, and its name if it has one."""
    names = spec.result_names
    name = f" ({names[index]})" if index < len(names) else ""
    return f"result {index}{name}"


def check_results(
    spec: OpSpec,
    operands: Sequence[Typed],
    results: Sequence[Typed],
    lead: Shape,
) -> None:
    """Checks what the reference returns against batch axes and aliases."""
    check_places_of_results(spec)
    for what, indices in (
        ("shared_results", spec.shared_results),
        ("output_layouts", spec.output_layouts),
        ("aliases", spec.input_output_aliases.values()),
    ):
        wrong = [i for i in indices if i >= len(results)]
        if wrong:
            expected = f"results below {len(results)}"
            raise ValueError(spec.error(what, expected, wrong[0]))
    for i, result in enumerate(results):
        begins_with = tuple(result.shape[: len(lead)])
        if i not in spec.shared_results and begins_with != lead:
            what = f"result {i} of the reference"
            expected = f"batch dimensions {list(lead)} as the operands have"
            got = f"shape {list(result.shape)}"
            raise ValueError(spec.error(what, expected, got))
    _check_ranks(spec, results, lead)
    for i, order in spec.output_layouts.items():
        own = len(results[i].shape) - len(lead)
        if len(order) != own:
            expected = f"an order of {own} kernel axes for result {i}"
            raise ValueError(spec.error("output_layouts", expected, order))
    for i, j in spec.input_output_aliases.items():
        operand, result = operands[i], results[j]
        if (operand.shape, operand.dtype) != (result.shape, result.dtype):
            raise ValueError(
                f"{spec.name}: aliases: operand {spec.operand_names[i]} is "
                f"{type_name(operand)}, expected {type_name(result)} as result "
                f"{j} is"
            )


def _check_ranks(spec: OpSpec, results: Sequence[Typed], lead: Shape) -> None:
    """ValueError if results have other kernel axes than `axes` names."""
    letters = spec.result_letters or ()
    for i, (names, result) in enumerate(zip(letters, results, strict=False)):
        if i in spec.shared_results:
            continue
        got = len(result.shape) - len(lead)
        if got != len(names):
            expected = f"{len(names)} kernel axes ({','.join(names)})"
            what = f"axes: result {i}"
            raise ValueError(
                spec.error(what, expected, f"{got}, shape {list(result.shape)}")
            )


def type_name(x: Typed) -> str:
    """An array's type, for messages."""
    return f"{x.dtype}{list(x.shape)}"


def check_dtypes(spec: OpSpec, operands: Sequence[Typed]) -> None:
    """TypeError if the handlers take no operands of such dtypes."""
    if spec.dtypes is None:
        if spec.contract is not None:
            contract.check_dtypes(spec, operands)
        return
    left = spec.dtypes
    for i, (operand, x) in enumerate(zip(spec.operands, operands, strict=True)):
        place = min(operand.place, len(left[0]) - 1)
        wanted = list(dict.fromkeys(entry[place] for entry in left))
        left = [entry for entry in left if entry[place] == x.dtype.name]
        if not left:
            like = f" as operand {spec.operand_names[0]} has" if i else ""
            expected = f"dtype {', '.join(wanted)}{like}"
            what = f"operand {operand.name}"
            got = x.dtype.name + _dtypes.remedy(wanted)
            raise TypeError(spec.error(what, expected, got))
