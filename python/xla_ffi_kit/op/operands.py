"""The operands of a call, and its results: arrays, dtypes, shapes, aliases.

Python's numbers have the dtype that the operation takes. That is as in JAX,
whose weak types these are: `jnp.float32(1) + 2.0` is a float32 also where
64-bit types are on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from xla_ffi_kit import _check, _dtypes
from xla_ffi_kit._check import Shape, Typed
from xla_ffi_kit.op import contract
from xla_ffi_kit.op.spec import OpSpec

_T = TypeVar("_T")


def arrays(spec: OpSpec, operands: Sequence[ArrayLike]) -> list[jax.Array]:
    """The operands of a call as arrays.

    Raises:
      TypeError: one is no array.
      ValueError: the dtype cannot hold a Python number.
    """
    return [
        _number(spec, name, x, dtype)
        if type(x) in (int, float) and dtype is not None
        else _check.array(spec.name, name, x)
        for name, x, dtype in zip(
            spec.operand_names, operands, spec.only_dtypes, strict=True
        )
    ]


def _number(
    spec: OpSpec, name: str, x: ArrayLike, dtype: np.dtype[np.generic]
) -> jax.Array:
    try:
        if _takes(x, dtype):
            return jnp.asarray(x, dtype)
    except OverflowError:
        expected = f"a number that {dtype} has"
        message = spec.error(f"operand {name}", expected, x)
        raise ValueError(message) from None
    return _check.array(spec.name, name, x)


def _takes(x: ArrayLike, dtype: np.dtype[np.generic]) -> bool:
    """Whether JAX would compute with x in this dtype: no float as an int."""
    if _dtypes.remedy((dtype.name,)):
        return False  # JAX would warn of the dtype, and we raise an error.
    return bool(jnp.result_type(x, dtype) == dtype)


def in_own_dtypes(
    spec: OpSpec, operands: Sequence[jax.Array]
) -> list[jax.Array]:
    """The same arrays, but those of weak types with the operation's dtype.

    A traced Python number, as in `jax.grad(op)(2.0)`, is such an array.
    """
    return [
        jax.lax.convert_element_type(x, dtype)
        if dtype is not None
        and x.dtype != dtype
        and jax.typeof(x).weak_type
        and _takes(x, dtype)
        else x
        for x, dtype in zip(operands, spec.only_dtypes, strict=True)
    ]


def strong(x: _T) -> _T:
    """The same array with a strong type, as results of handlers have it.

    With a weak type, an operation that takes it would return another dtype.
    """
    if not isinstance(x, jax.Array) or not jax.typeof(x).weak_type:
        return x
    return cast(_T, jax.lax.convert_element_type(x, x.dtype))


def check_dtypes(spec: OpSpec, operands: Sequence[Typed]) -> None:
    """TypeError if the handlers take no operands of such dtypes."""
    if spec.dtypes is None:
        if spec.contract is not None:
            contract.check_dtypes(spec, operands)
        return
    entries = spec.dtypes
    for i, (operand, x) in enumerate(zip(spec.operands, operands, strict=True)):
        position = min(operand.position, len(entries[0]) - 1)
        allowed = list(dict.fromkeys(entry[position] for entry in entries))
        entries = [
            entry for entry in entries if entry[position] == x.dtype.name
        ]
        if not entries:
            like, first = "", operands[0].dtype.name
            if i and allowed == [first]:
                like = f" as operand {spec.operand_names[0]} has"
            elif i and len(spec.dtypes) > 1:
                like = f" beside {first} of operand {spec.operand_names[0]}"
            expected = f"dtype {', '.join(allowed)}{like}"
            what = f"operand {operand.name}"
            got = x.dtype.name + _dtypes.remedy(allowed)
            raise TypeError(spec.error(what, expected, got))


def check_results(
    spec: OpSpec,
    operands: Sequence[Typed],
    results: Sequence[Typed],
    lead: Shape,
) -> None:
    """Checks what the reference returns against batch axes and aliases.

    Raises ValueError.
    """
    spec.check_places_of_results()
    _check_dtypes_of_results(spec, operands, results)
    for what, indices in (
        ("shared_results", spec.shared_results),
        ("output_layouts", spec.output_layouts),
        ("aliases", spec.input_output_aliases.values()),
    ):
        for i in indices:
            if i >= len(results):
                expected = f"results below {len(results)}"
                raise ValueError(spec.error(what, expected, i))
    letters = spec.result_letters or ()
    for i, result in enumerate(results):
        shape = tuple(result.shape)
        if i in spec.shared_results:
            continue
        if shape[: len(lead)] != lead:
            what = f"result {i} of the reference"
            expected = f"batch dimensions {list(lead)} as the operands have"
            got = f"shape {list(shape)}"
            raise ValueError(spec.error(what, expected, got))
        axes = len(shape) - len(lead)
        if i < len(letters) and axes != len(letters[i]):
            expected = f"{len(letters[i])} kernel axes ({','.join(letters[i])})"
            got = f"{axes}, shape {list(shape)}"
            raise ValueError(spec.error(f"axes: result {i}", expected, got))
    for i, order in spec.output_layouts.items():
        axes = len(results[i].shape) - len(lead)
        if len(order) != axes:
            expected = f"an order of {axes} kernel axes for result {i}"
            raise ValueError(spec.error("output_layouts", expected, order))
    for i, j in spec.input_output_aliases.items():
        operand, result = operands[i], results[j]
        if (operand.shape, operand.dtype) != (result.shape, result.dtype):
            raise ValueError(
                f"{spec.name}: aliases: operand {spec.operand_names[i]} is "
                f"{type_name(operand)}, expected {type_name(result)} as result "
                f"{j} is"
            )


def _check_dtypes_of_results(
    spec: OpSpec, operands: Sequence[Typed], results: Sequence[Typed]
) -> None:
    """TypeError for dtypes that the handler has no results of.

    Its signature says them for each combination of the operands' dtypes.
    """
    signature, short = spec.contract, _dtypes.SHORT_NAMES
    if signature is None or len(signature.results) != len(results):
        return
    combinations = [
        [short.get(name) for name in entry] for entry in signature.combinations
    ]
    own = [x.dtype.name for x in operands]
    places = [k for k, entry in enumerate(combinations) if entry == own]
    for i, (result, y) in enumerate(
        zip(signature.results, results, strict=True)
    ):
        if len(result.dtypes) != len(combinations):
            continue
        written = {short.get(result.dtypes[k]) for k in places}
        if places and y.dtype.name not in written:
            raise TypeError(
                spec.error(
                    f"result {i} ({result.name})",
                    f"dtype {' or '.join(map(str, written))}, as the handler "
                    "writes it",
                    f"{y.dtype.name} (of strings, those of inline have arrays "
                    "of several types)",
                )
            )


def describe(spec: OpSpec, operands: Sequence[Typed]) -> str:
    """Describes operands by name and type, for messages."""
    pairs = zip(spec.operand_names, operands, strict=True)
    return ", ".join(f"{name} {type_name(x)}" for name, x in pairs)


def type_name(x: Typed) -> str:
    """An array's type, for messages."""
    return f"{x.dtype}{list(x.shape)}"
