"""Hashes a Python kernel, with the same result in every process."""

from __future__ import annotations

import dis
import hashlib
import json
import sys
import types
from collections.abc import Callable, Iterator, Mapping

import numpy as np

_NUMBERS = (bool, int, float, complex)
_PLAIN = (*_NUMBERS, str, bytes, np.dtype, type(None), type(...), slice)


def digest(*parts: object) -> str:
    """A hash of functions and values."""
    text = json.dumps(_Describer().describe(parts))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def of_cfunc(cfunc: object) -> str:
    """A hash of a `numba.cfunc`; "" if nothing tells what it computes."""
    python = getattr(cfunc, "__wrapped__", None)
    if python is None:
        return ""
    compiler = getattr(cfunc, "_compiler", None)
    return digest(
        python,
        repr(getattr(cfunc, "_sig", None)),
        repr(getattr(compiler, "targetoptions", None)),
        repr(getattr(compiler, "locals", None)),
    )


class _Describer:
    """Describes functions by their bytecode and by what they refer to.

    That is what numba compiles, with the values of a kernel's global names. A
    source would not do: that of a lambda is its line, with others in it.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def describe(self, value: object) -> object:
        name = type(value).__name__
        if isinstance(value, _PLAIN):
            return [name, repr(value)]
        if isinstance(value, np.generic | np.ndarray):
            return [
                name,
                value.dtype.str,
                np.shape(value),
                value.tobytes().hex(),
            ]
        if isinstance(value, tuple | list):
            return [name, *map(self.describe, value)]
        if isinstance(value, Mapping):
            return [[k, self.describe(v)] for k, v in value.items()]
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if hasattr(value, "py_func"):  # jitted
            options = getattr(value, "targetoptions", None)
            # One that was compiled for given types takes no others.
            is_open = getattr(value, "_can_compile", True)
            taken = [] if is_open else getattr(value, "signatures", [])
            return [
                repr(options),
                repr(taken),
                self._function(value.py_func),
            ]
        if isinstance(value, frozenset):
            return [name, *sorted(json.dumps(self.describe(v)) for v in value)]
        if isinstance(value, types.CodeType):
            return self._code(value)
        if isinstance(value, types.ModuleType | np.ufunc):
            return [name, value.__name__]
        module, called = _import_path(value)
        if called:
            return [name, module, called]
        # Nothing else is known to be the same in another process.
        _kept.append(value)
        return [name, id(value)]

    def _function(self, function: Callable[..., object]) -> object:
        assert isinstance(function, types.FunctionType)
        if id(function) in self._seen:
            return function.__name__
        self._seen.add(id(function))
        names: set[str] = set()
        attributes: set[str] = set()
        for code in _codes(function.__code__):
            attributes.update(code.co_names)
            names.update(
                i.argval
                for i in dis.get_instructions(code)
                if i.opname == "LOAD_GLOBAL"
            )
        values = {n: v for n, v in function.__globals__.items() if n in names}
        cells = function.__closure__ or ()
        for name, cell in zip(
            function.__code__.co_freevars, cells, strict=True
        ):
            try:
                values[name] = cell.cell_contents
            except ValueError:  # not bound yet
                continue
        for name, value in list(values.items()):
            if isinstance(value, types.ModuleType):
                for attribute in attributes & vars(value).keys():
                    part = vars(value)[attribute]
                    # numba has its own versions of NumPy's functions.
                    if not isinstance(part, types.FunctionType):
                        values[f"{name}.{attribute}"] = part
        return [
            self._code(function.__code__),
            self.describe(function.__defaults__ or ()),
            self.describe(function.__kwdefaults__ or {}),
            [[n, self.describe(values[n])] for n in sorted(values)],
        ]

    def _code(self, code: types.CodeType) -> object:
        """All but the lines, and with them the file."""
        return [
            code.co_code.hex(),
            getattr(code, "co_exceptiontable", b"").hex(),
            [code.co_argcount, code.co_kwonlyargcount, code.co_flags],
            [code.co_names, code.co_varnames, code.co_freevars],
            [self.describe(constant) for constant in code.co_consts],
        ]


# Objects known by their address.
_kept: list[object] = []


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code and that of the functions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _import_path(value: object) -> tuple[str, str]:
    """Module and name by which an import finds the value, else none."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", getattr(value, "__name__", None))
    if isinstance(module, str) and isinstance(name, str):
        found: object = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is value:
            return module, name
    return "", ""
