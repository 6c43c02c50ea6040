"""Reads the axes of an operation's kernel in the notation of `jnp.vectorize`.

"(m,n),(n)->(m)" names the kernel axes of each operand and each result. Axes of
one name have one size; a number is that size, and each "_" has one of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from xla_ffi_kit._check import Typed
from xla_ffi_kit.op.spec import OpSpec, message

OF_ITS_OWN = "_"
ASKED = "one of them, such as '(n)->(n)' or 1"
Letters: TypeAlias = tuple[str, ...]
_LIST = r"\(\s*(?:\w+\s*(?:,\s*\w+\s*)*)?\)"
_SIDE = re.compile(rf"\s*(?:{_LIST}\s*(?:,\s*{_LIST}\s*)*)?")


def parse(text: object) -> tuple[list[Letters], list[Letters]] | None:
    """The names of axes of operands and of results; None if it is neither."""
    sides = text.split("->") if isinstance(text, str) else []
    if len(sides) != 2 or not all(map(_SIDE.fullmatch, sides)):
        return None
    operands, results = (
        [tuple(re.findall(r"\w+", one)) for one in re.findall(_LIST, side)]
        for side in sides
    )
    return operands, results


def declared(
    op: str, names: Sequence[str], kernel_axes: object, axes: object
) -> tuple[list[int], Any, Any]:
    """The kernel axes of each operand as an author declares them.

    Numbers of axes, and, if `axes` says them, names of these axes and of those
    of the results.
    """
    if axes is not None:
        parsed = parse(axes)
        if kernel_axes is not None or parsed is None:
            got = repr(axes) if parsed is None else "both"
            expected = "one of them, or axes like '(m,n),(n)->(m)'"
            raise ValueError(message(op, "axes, kernel_axes", expected, got))
        if len(parsed[0]) != len(names):
            expected = f"the axes of {len(names)} operands"
            got = f"{len(parsed[0])}: {axes}"
            raise ValueError(
                message(op, "axes", f"{expected} ({', '.join(names)})", got)
            )
        return [len(letters) for letters in parsed[0]], *parsed
    if kernel_axes is None and names:
        raise TypeError(message(op, "axes, kernel_axes", ASKED, "none"))
    count = 0 if kernel_axes is None else kernel_axes
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        expected = (
            "a number >= 0 for all operands (axes='(),(n)->(n)' tells them "
            "apart)"
        )
        raise ValueError(
            message(op, "kernel_axes", expected, repr(kernel_axes))
        )
    return [count] * len(names), None, None


def check(
    spec: OpSpec, operands: Sequence[Typed], results: Sequence[Typed] = ()
) -> None:
    """ValueError if axes of one name differ in size."""
    if spec.result_letters is None:
        return  # There are numbers of axes alone, and no names.
    if results and len(spec.result_letters) > len(results):
        _check_count(spec, len(results))
    # For each name, which operand or result has it first, and of what size.
    sizes: dict[str, tuple[str, int]] = {}
    arrays = [
        *((f"operand {o.name}", o.letters) for o in spec.operands),
        *(
            (f"result {i}", letters)
            for i, letters in enumerate(spec.result_letters)
        ),
    ]
    for (what, letters), x in zip(arrays, (*operands, *results), strict=False):
        if len(x.shape) < len(letters):
            rank = f"rank >= {len(letters)}, axes ({','.join(letters)})"
            raise ValueError(spec.error(what, rank, f"rank {len(x.shape)}"))
        kernel = x.shape[len(x.shape) - len(letters) :]
        for at, (letter, size) in enumerate(zip(letters, kernel, strict=True)):
            if not isinstance(size, int) or letter == OF_ITS_OWN:
                continue  # An export with any size checks it when it is called.
            other, expected = sizes.setdefault(letter, (what, size))
            if letter.isdecimal():
                other, expected = "", int(letter)
            if size != expected:
                like = f", {letter} as {other} has it" if other else ""
                axis = f"axis {at - len(letters)} of size {expected}{like}"
                got = f"{size} (shape {list(x.shape)})"
                if len({o.parameter for o in spec.operands}) < len(operands):
                    got += f"; an axis {OF_ITS_OWN} has a size of its own"
                raise ValueError(spec.error(what, axis, got))


def _check_count(spec: OpSpec, results: int) -> None:
    """ValueError if `axes` names results that no call has.

    Without some operands, or for some attributes, there may be fewer.
    """
    if not spec.attributes and len(spec.operands) == spec.full_count:
        expected = f"the axes of {results} results or fewer"
        got = f"{len(spec.result_letters or ())}"
        raise ValueError(spec.error("axes", expected, got))
