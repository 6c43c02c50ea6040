"""An operation as a Python function: names, defaults, pickling."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

from xla_ffi_kit.op.spec import (
    Function,
    OpSpec,
    ShapeFunction,
    message,
)


def parameters(
    name: str, reference: Function | None, results: ShapeFunction | None
) -> inspect.Signature:
    """Python's signature of the reference or the shape function."""
    if (reference is None) == (results is None):
        got = "neither" if reference is None else "both"
        expected = "one of them, a function"
        raise TypeError(message(name, "reference, results", expected, got))
    what = "reference" if results is None else "results"
    function = reference if results is None else results
    if not callable(function):
        raise TypeError(message(name, what, "a function", repr(function)))
    return inspect.signature(function)


def resemble(op: Callable[..., object], spec: OpSpec) -> None:
    """Gives the operation its function's name, signature and docstring."""
    function = spec.reference or spec.results
    named: object = function
    while isinstance(named, functools.partial):
        named = named.func
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        value = getattr(named, name, None)
        if value is not None:
            setattr(op, name, value)
    implementation = inspect.Parameter(
        "implementation", inspect.Parameter.KEYWORD_ONLY, default=None
    )
    # None says that an operand may be left out. Operands have no other default,
    # so the signature shows none that the reference has.
    operands = {operand.parameter for operand in spec.operands}
    shown = [
        p
        if p.kind is p.KEYWORD_ONLY or p.default is None
        else p.replace(default=p.empty)
        for p in spec.parameters.parameters.values()
        if p.kind is p.KEYWORD_ONLY or p.name in operands
    ]
    op.__signature__ = spec.parameters.replace(  # type: ignore[attr-defined]
        parameters=[*shown, implementation]
    )
    op.__wrapped__ = function  # type: ignore[attr-defined]


def defaults(spec: OpSpec) -> dict[str, object]:
    """The attributes that a call may leave out, and their values."""
    absent = without_value(spec)
    return {
        p.name: p.default
        for p in spec.parameters.parameters.values()
        if p.name in spec.attributes
        and p.default is not p.empty
        and p.name not in absent
    }


def without_value(spec: OpSpec) -> list[str]:
    """The attributes whose default None no handler can get.

    Their calls have an operand instead, or pass them.
    """
    return [
        p.name
        for p in spec.parameters.parameters.values()
        if spec.attributes.get(p.name) is not None and p.default is None
    ]


def all_operands(
    spec: OpSpec,
    operands: Sequence[Any],
    keywords: dict[str, Any],
) -> list[Any]:
    """All operands, None for one that is left out, repeated ones at the end.

    Takes those out of `keywords` that are passed by name.
    """
    by_name = [o for o in spec.operands if not o.is_repeated]
    values = list(operands)
    for operand in by_name[: len(values)]:
        if operand.parameter in keywords:
            what, name = f"operand {operand.name}", operand.parameter
            got = f"it by position and as {name}="
            raise TypeError(spec.error(what, "it once", got))
    for operand in by_name[len(values) :]:
        if operand.is_optional:
            values.append(keywords.pop(operand.parameter, None))
        elif operand.parameter in keywords:
            values.append(keywords.pop(operand.parameter))
        else:
            _refuse(spec, operands, keywords)
    if len(values) > len(by_name) and len(by_name) == len(spec.operands):
        _refuse(spec, operands, keywords)
    return values


def _refuse(
    spec: OpSpec, operands: Sequence[object], keywords: Mapping[str, object]
) -> NoReturn:
    """Raises for a wrong number of operands."""
    names = spec.operand_names
    least = sum(not (o.is_optional or o.is_repeated) for o in spec.operands)
    count = f"{least} to {len(names)}" if least < len(names) else f"{least}"
    if any(operand.is_repeated for operand in spec.operands):
        count = f"{least} or more"
    message = (
        f"{spec.name}: operands: expected {count} ({', '.join(names)}), got "
        f"{len(operands)}"
    )
    absent = [n for n in names[len(operands) :] if n not in keywords]
    parameters = spec.parameters.parameters
    empty = inspect.Parameter.empty
    defaulted = [n for n in absent if parameters[n].default is not empty]
    if defaulted:
        remedy = with_keywords(spec.parameters, defaulted)
        message += (
            f"; an operand has no default, so pass {', '.join(defaulted)}, or "
            f"make it a keyword-only attribute: {remedy}"
        )
    raise TypeError(message)


def with_keywords(
    parameters: inspect.Signature, names: Collection[str]
) -> inspect.Signature:
    """The signature with `names` keyword-only, as attributes are."""
    changed = [
        p.replace(kind=p.KEYWORD_ONLY) if p.name in names else p
        for p in parameters.parameters.values()
    ]
    return inspect.Signature(sorted(changed, key=lambda p: p.kind))


def reduce(op: Any) -> str | tuple[Callable[..., object], tuple[str, str]]:
    """For pickle: where the operation is a global, not what it is made of."""
    # `__module__` is that of the reference, which may be in another module than
    # the operation.
    home = sys.modules.get(op.__module__)
    for module in (home, *list(sys.modules.values())):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is not op or module is None:
                continue
            return name if module is home else (_load, (module.__name__, name))
    raise TypeError(
        f"{op.name}: cannot be pickled: expected it to be a global of a "
        "module, by which another process finds it"
    )


def _load(module: str, name: str) -> object:
    return getattr(importlib.import_module(module), name)
