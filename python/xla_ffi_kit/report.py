"""Says how an operation runs, and where its derivatives come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import jax.numpy as jnp
import numpy as np

from xla_ffi_kit import _dtypes
from xla_ffi_kit.op import implementation
from xla_ffi_kit.op.spec import (
    DeviceKernel,
    Function,
    Operand,
    OpSpec,
    TargetsByDtypes,
)

_SHORT = {name: short for short, name in _dtypes.SHORT_NAMES.items()}


def report(spec: OpSpec) -> str:
    """The operation in some lines: its call, and a topic each."""
    topics = dict(_topics(spec))
    width = max(map(len, topics))
    lines = [f"{topic:<{width}}  {text}" for topic, text in topics.items()]
    return "\n".join([_call(spec), *(f"  {line}" for line in lines)])


def _topics(spec: OpSpec) -> Iterator[tuple[str, str]]:
    yield "dtypes", _dtypes_of(spec)
    for platform in spec.handlers:
        yield platform, runs_on(spec, platform)
    others = "other platforms" if spec.handlers else "every platform"
    yield others, "the reference" if spec.reference else "an error"
    yield "vmap", _under_vmap(spec)
    if spec.aliases:
        yield "in place", ", ".join(_aliases(spec))
    if spec.advanced.has_side_effect:
        yield "side effect", "the call stays, and is not repeated"
    yield from _derivatives(spec)


def _call(spec: OpSpec) -> str:
    """The operation as a call: `norm(x[..., n], weight[n], *, eps)`."""
    parameters = [_operand(operand) for operand in spec.operands]
    if spec.all_attributes:
        parameters += ["*", *spec.all_attributes]
    return f"{spec.name}({', '.join(parameters)})"


def _operand(operand: Operand) -> str:
    axes = operand.letters or ("*",) * operand.axes
    lead = () if operand.is_shared else ("...",)
    name = f"{operand.name}?" if operand.is_optional else operand.name
    return f"{name}[{', '.join((*lead, *axes))}]"


def _dtypes_of(spec: OpSpec) -> str:
    """Those that handlers take: one of all operands, or one of each."""
    if spec.dtypes is None:
        dtypes = [f"{a.name} {a.dtype}" for a in spec.signature_operands]
        return ", ".join(dtypes) or "any"
    return " ".join(map(_names, spec.dtypes))


def _names(dtypes: Sequence[str]) -> str:
    """Short names: one, if all are the same."""
    names = [_SHORT.get(name, name) for name in dtypes]
    return ",".join(names) if len(set(names)) > 1 else names[0]


def runs_on(spec: OpSpec, platform: str) -> str:
    """What runs on a platform that has a handler.

    Raises HandlerLibraryError if the library of the handler cannot be used.
    """
    why = implementation.reason(spec, platform)
    if why is not None:
        runs = "the reference" if spec.reference else "nothing"
        return f"{runs}, as {why}"
    handler = spec.handlers[platform]
    if isinstance(handler, DeviceKernel):
        return handler.report()
    if isinstance(handler, TargetsByDtypes):
        return "; ".join(
            f"for {_names(dtypes)} {_of(spec, platform, target)}"
            for dtypes, target in handler.targets.items()
        )
    if not isinstance(handler, str):
        return f"the function {_name_of(handler)} of the spec"
    return _of(spec, platform, handler)


def _of(spec: OpSpec, platform: str, target: str) -> str:
    """The handler of a target, and where it is from."""
    library = implementation.library_of(spec, platform, target)
    if library is None:
        return f"the handler {target} that is registered"
    return library.report(target)


def _under_vmap(spec: OpSpec) -> str:
    method = spec.advanced.vmap_method
    if method == "sequential" or spec.vmap_loops:
        return "a call for each element, in a loop"
    if method == "expand_dims":
        return "one call; operands that are not mapped have axes of size one"
    more = "one call with one more batch axis"
    if spec.advanced.columns is not None:
        more += f", or with more columns {spec.advanced.columns}"
    return more


def _aliases(spec: OpSpec) -> Iterator[str]:
    for operand, result in spec.aliases.items():
        name = f"result {result}" if isinstance(result, int) else result
        yield f"{name} in the memory of {operand}, or of a copy"


def _derivatives(spec: OpSpec) -> Iterator[tuple[str, str]]:
    """Where the derivatives come from, in the order in which rules apply."""
    linear = [spec.operand_names[i] for i in spec.linear]
    others = [name for name in spec.operand_names if name not in linear]
    if others:
        yield "derivatives", _of_rules(spec) + _without(spec)
    if linear:
        if spec.transpose is not None:
            backwards = f"{_name_of(spec.transpose)}, its transpose="
        elif spec.reference is not None:
            backwards = "the transpose of the reference"
        else:
            backwards = "none, as there is neither transpose= nor a reference"
        each = "each of " if spec.is_bilinear else ""
        yield (
            f"linear in {each}{', '.join(linear)}",
            f"forwards the operation itself, backwards {backwards}",
        )


def _of_rules(spec: OpSpec) -> str:
    if spec.jvp is not None:
        return f"{_name_of(spec.jvp)}, its jvp="
    if spec.vjp is not None:
        names = " and ".join(map(_name_of, spec.vjp))
        return f"{names}, its vjp=, in reverse mode alone"
    if spec.advanced.differentiate is not None:
        return spec.advanced.differentiate.report()
    if spec.solves is not None:
        solve = spec.advanced.linear_solve
        by = "" if solve is None else f", solved by {_name_of(solve)}"
        return f"by the equation {_name_of(spec.solves)}, its solves={by}"
    if spec.reference is not None:
        return "the reference's"
    return "none, as there is no reference, jvp= or vjp="


def _without(spec: OpSpec) -> str:
    """Which dtypes have no derivatives, as none of an entry is a float."""
    entries = [
        ",".join(dict.fromkeys(_SHORT.get(name, name) for name in entry))
        for entry in spec.dtypes or ()
        if not any(_is_inexact(name) for name in entry)
    ]
    return f"; none of {' '.join(entries)}" if entries else ""


def _is_inexact(dtype: str) -> bool:
    return jnp.issubdtype(jnp.dtype(dtype), np.inexact)


def _name_of(function: Function | Callable[..., object]) -> str:
    return getattr(function, "__name__", type(function).__name__)
