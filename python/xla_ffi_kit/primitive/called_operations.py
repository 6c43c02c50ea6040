"""Finds the operations that a function calls, without running it."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from xla_ffi_kit.primitive.ffi_op import FfiOp

# Packages whose own code calls no operation, unless it is handed one.
_FOREIGN = {*sys.stdlib_module_names, "jax", "jaxlib", "numpy", "scipy"}

_Names = frozenset[str]


def operations_in(
    function: object, *, derivatives: bool = False
) -> list[FfiOp[Any]]:
    """The operations that a function uses by names that its code spells.

    For an operation, this is the operation itself. The search follows globals,
    closures, defaults, attributes of modules and objects, methods,
    `functools.partial`, functions that `jax.jit` and others have wrapped, and
    called functions except those of JAX and Python. It does not see values that
    exist only at run time: an argument, the result of a call, `getattr`.

    Args:
      function: an operation, or a function that calls some.
      derivatives: whether to include the operations that the found ones call
        in their rules or instead of a handler.

    Raises:
      TypeError: no operation is found.
    """
    search = _Search(derivatives)
    search.visit(function, frozenset())
    if not search.found:
        raise TypeError(
            "expected an operation, or a function that calls some, got "
            f"{function!r}"
        )
    return list(search.found.values())


class _Search:
    """A walk through what code names.

    With each value go the attributes that may be asked of it: all that the code
    that led to it spells.
    """

    def __init__(self, derivatives: bool) -> None:
        self.found: dict[int, FfiOp[Any]] = {}
        self._derivatives = derivatives
        # The values are kept, lest another one gets the id of one seen.
        self._seen: dict[tuple[int, _Names], object] = {}

    def visit(self, value: object, names: _Names) -> None:
        if value is None or isinstance(value, str | bytes | int | float):
            return
        if (id(value), names) in self._seen:
            return
        self._seen[id(value), names] = value
        if isinstance(value, FfiOp):
            self._operation(value)
        elif isinstance(value, types.ModuleType):
            if not _is_foreign(value.__name__):
                self._all((vars(value).get(name) for name in names), names)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self._method(value.__func__, value.__self__)
        elif isinstance(value, functools.partial):
            self._all((value.func, value.args, value.keywords), names)
        elif isinstance(value, dict):
            self._all(value.values(), names)
        elif isinstance(value, list | tuple | set | frozenset):
            self._all(value, names)
        elif isinstance(value, type):
            # Which methods of an instance will be called is not known.
            for base in value.__mro__:
                if not _is_foreign(base.__module__):
                    self._all(map(_plain, vars(base).values()), names)
        else:
            self._object(value, names)

    def _all(self, values: Iterable[object], names: _Names) -> None:
        for value in values:
            self.visit(value, names)

    def _operation(self, op: FfiOp[Any]) -> None:
        self.found[id(op)] = op
        if self._derivatives:
            rules = (op.jvp, op.vjp, op.transpose, op.partitioned)
            self._all((*rules, *op.handlers.values()), frozenset())

    def _function(self, function: types.FunctionType) -> None:
        code, names = function.__code__, _spelled_in(function)
        self.visit(getattr(function, "__wrapped__", None), names)
        self.visit(function.__defaults__, names)
        self.visit(function.__kwdefaults__, names)
        self._all(_closed_over(function), names)
        # JAX's own wrappers have what they call in their closures.
        if not _is_foreign(function.__globals__.get("__name__", "")):
            self._all(globals_of(code, function.__globals__), names)
            self._all(_imported_by(code), names)

    def _method(self, function: object, instance: object) -> None:
        self.visit(function, frozenset())
        self.visit(instance, _spelled_in(function))

    def _object(self, value: object, names: _Names) -> None:
        self.visit(getattr(value, "__wrapped__", None), names)
        held = getattr(value, "__dict__", {})
        if _is_foreign(type(value).__module__):
            if callable(value):  # as what jax.custom_vjp returns
                self._all(list(held.values()), names)
            return
        self._all([held.get(name) for name in names], names)
        for name in names | {"__call__"}:
            method = _plain(inspect.getattr_static(type(value), name, None))
            if callable(method) and not isinstance(method, type):
                self._method(method, value)


def _is_foreign(module: str) -> bool:
    return module.partition(".")[0] in _FOREIGN


def _plain(attribute: object) -> object:
    """The function behind an attribute of a class."""
    if isinstance(attribute, staticmethod | classmethod):
        return attribute.__func__
    return attribute.fget if isinstance(attribute, property) else attribute


def _closed_over(function: types.FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # it is not assigned yet


def _spelled_in(function: object) -> _Names:
    """The attributes that a function's code spells, and that it wraps."""
    names: set[str] = set()
    while function is not None:
        code = getattr(function, "__code__", None)
        if isinstance(code, types.CodeType):
            for part in _codes(code):
                names.update(part.co_names)
        function = getattr(function, "__wrapped__", None)
    return frozenset(names)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Code, and the code inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _imported_by(code: types.CodeType) -> Iterator[types.ModuleType]:
    """The loaded modules that code imports itself."""
    for part in _codes(code):
        for instruction in dis.get_instructions(part):
            if instruction.opname == "IMPORT_NAME":
                path = str(instruction.argval)
                for name in (path, path.partition(".")[0]):
                    if name in sys.modules:
                        yield sys.modules[name]


def globals_of(
    code: types.CodeType, names: Mapping[str, object]
) -> Iterator[object]:
    """Returns the globals of `names` that code, and code inside it, loads."""
    for part in _codes(code):
        for instruction in dis.get_instructions(part):
            name = instruction.argval
            if instruction.opname == "LOAD_GLOBAL" and name in names:
                yield names[name]
