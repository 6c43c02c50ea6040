"""Hashes a Python kernel, with the same result in every process."""

from __future__ import annotations

import ast
import dis
import hashlib
import inspect
import json
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping

import numpy as np

_NUMBERS = (bool, int, float, complex, str, bytes, type(None), np.dtype)


def digest(*parts: object) -> str:
    """A hash of functions and values."""
    text = json.dumps(_Describer().describe(parts))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class _Describer:
    """Describes functions by their source and by what they refer to.

    numba compiles the values of a kernel's global names into the kernel.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def describe(self, value: object) -> object:
        name = type(value).__name__
        if isinstance(value, _NUMBERS):
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
            return [repr(options), self._function(value.py_func)]
        called = getattr(
            value, "__qualname__", getattr(value, "__name__", None)
        )
        if (
            isinstance(value, types.ModuleType | type)
            or callable(value)
            and called
        ):
            return [name, getattr(value, "__module__", None), called]
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
            _source(function),
            self.describe(function.__defaults__ or ()),
            [[n, self.describe(values[n])] for n in sorted(values)],
        ]


# Objects known by their address.
_kept: list[object] = []


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code and that of the functions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _source(function: types.FunctionType) -> object:
    """Returns a function's source without comments, else its bytecode."""
    try:
        return ast.unparse(
            ast.parse(textwrap.dedent(inspect.getsource(function)))
        )
    except (OSError, SyntaxError, TypeError):
        return [
            [
                code.co_code.hex(),
                code.co_names,
                [repr(c) for c in code.co_consts if not inspect.iscode(c)],
            ]
            for code in _codes(function.__code__)
        ]
