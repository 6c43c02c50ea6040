"""Checks the options of an `FfiOp`, each by itself."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from xla_ffi_kit.op.device_kernel import target_of
from xla_ffi_kit.op.spec import Advanced, Options, each, message


def check(name: str, options: Options) -> None:
    """Raises TypeError for an option of another kind."""
    for what, kind, noun in (
        ("handlers", Mapping, "a mapping"),
        ("attributes", Mapping, "a mapping"),
        ("aliases", Mapping, "a mapping"),
        ("advanced", Advanced, "xla_ffi_kit.Advanced(...)"),
    ):
        given = options.get(what)
        if given is not None and not isinstance(given, kind):
            raise TypeError(message(name, what, noun, repr(given)))
    advanced = options.get("advanced") or Advanced()
    _check_functions(name, options, advanced)
    for part in each(advanced.part_of):
        if not isinstance(part, str):
            expected = "the name of a function, or several names"
            raise TypeError(message(name, "part_of", expected, repr(part)))


def check_names(name: str, options: Options) -> None:
    """TypeError for a keyword that a decorator cannot pass on to `FfiOp`."""
    for wrong in sorted(options.keys() - Options.__annotations__.keys()):
        raise TypeError(f"{name}: got an unexpected keyword argument {wrong!r}")


def _check_functions(name: str, options: Options, advanced: Advanced) -> None:
    if not isinstance(advanced.workspace, Mapping):
        got = repr(advanced.workspace)
        raise TypeError(message(name, "workspace", "a mapping", got))
    functions = {
        "jvp": options.get("jvp"),
        "transpose": options.get("transpose"),
        "solves": options.get("solves"),
        "check": advanced.check,
        "linear_solve": advanced.linear_solve,
        "partitioned": advanced.partitioned,
        "shape_attributes": advanced.shape_attributes,
        **{f"workspace: {p}": f for p, f in advanced.workspace.items()},
    }
    for what, function in functions.items():
        if function is not None and not callable(function):
            raise TypeError(message(name, what, "a function", repr(function)))
    for platform, handler in (options.get("handlers") or {}).items():
        if target_of(handler) is None and not callable(handler):
            expected = "a custom call target or a function"
            what = f"handlers: {platform}"
            raise TypeError(message(name, what, expected, repr(handler)))


def pair(name: str, vjp: object) -> Any:
    """The option `vjp`; TypeError if it is not a pair of functions."""
    is_pair = isinstance(vjp, list | tuple) and len(vjp) == 2
    rules = vjp if isinstance(vjp, list | tuple) else ()
    if vjp is not None and not (is_pair and all(map(callable, rules))):
        expected = "a pair of functions, (fwd, bwd)"
        raise TypeError(message(name, "vjp", expected, repr(vjp)))
    return vjp


def among(
    op: str, what: str, kind: str, given: object, known: Collection[str]
) -> tuple[str, ...]:
    """Names of operands or results, one or several; error for an unknown."""
    found = each(given)
    for wrong in (name for name in found if name not in known):
        near = _near(wrong, known)
        every = f"a name of the {kind} {', '.join(known) or '(none)'}"
        expected = repr(near[0]) if near else every
        raise ValueError(message(op, what, expected, repr(wrong)))
    return tuple(map(str, found))


def _near(wrong: object, known: Collection[str]) -> list[str]:
    text = str(wrong)
    near = [n for n in known if text in n or (len(n) > 2 and n in text)]
    return near + difflib.get_close_matches(text, known)
