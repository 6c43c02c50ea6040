"""What the parameters of a C function are to an operation."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import keyword
from collections.abc import Sequence

import jax
import numpy as np

from xla_ffi_kit._check import Typed
from xla_ffi_kit.functions.declaration import (
    SKIP_DISPATCH,
    Declaration,
    Parameter,
)
from xla_ffi_kit.op import axes as kernel
from xla_ffi_kit.op.axes import Letters
from xla_ffi_kit.op.spec import ShapeFunction

# What registers pass: see xla_ffi/call/registers.h.
_MOST_INTEGERS, _MOST_FLOATS = 6, 8
_MOST_AXES = 4


class Kind(enum.IntEnum):
    """What a parameter gets: XlaFfiKit_ParameterKind."""

    VALUE = 0  # an element of an operand
    OPERAND = 1  # the address of a row of an operand
    RESULT = 2  # the address of a row of a result
    SIZE = 3  # the size of an axis
    ZERO = 4  # 0
    ATTRIBUTE = 5  # an attribute, of a function of arrays


@dataclasses.dataclass(frozen=True)
class Argument:
    """A parameter with its kind, and the names of its axes or its size."""

    parameter: Parameter
    kind: Kind
    letters: Letters = ()

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of the number, or of a row's elements."""
        return self.parameter.type.dtype


@dataclasses.dataclass(frozen=True)
class Layout:
    """A C function as an operation.

    Attributes:
      declaration: the function.
      arguments: its parameters.
      is_status: whether the integer that it returns is an error's number.
    """

    declaration: Declaration
    arguments: tuple[Argument, ...]
    is_status: bool

    @property
    def operands(self) -> list[Argument]:
        """The operands of the operation, in their order."""
        kinds = (Kind.VALUE, Kind.OPERAND)
        return [a for a in self.arguments if a.kind in kinds]

    @property
    def results(self) -> list[Argument]:
        """The results: what the function returns, then what it writes."""
        written = [a for a in self.arguments if a.kind == Kind.RESULT]
        returned = self.declaration.returns
        if returned is None or self.is_status:
            return written
        return [Argument(Parameter(returned), Kind.VALUE), *written]

    @property
    def axes(self) -> str:
        """The axes of operands and results, in the notation of `FfiOp`."""
        operands, results = (
            ",".join(f"({','.join(a.letters)})" for a in arguments)
            for arguments in (self.operands, self.results)
        )
        return f"{operands}->{results}"

    @property
    def names(self) -> list[str]:
        """Names of the operands, which the declaration need not have."""
        count = len(self.operands)
        return [
            _python_name(a.parameter.name) or ("x" if count == 1 else f"x{i}")
            for i, a in enumerate(self.operands)
        ]

    def shapes(self, name: str) -> ShapeFunction:
        """The shape function of the operation."""
        results = [(a.letters, a.dtype) for a in self.results]
        letters = [a.letters for a in self.operands]

        def shapes(*operands: Typed) -> Typed | tuple[Typed, ...]:
            sizes = {
                letter: size
                for own, x in zip(letters, operands, strict=True)
                for letter, size in zip(own, x.shape, strict=True)
            }
            found = tuple(
                jax.ShapeDtypeStruct(
                    [int(a) if a.isdecimal() else sizes[a] for a in own], dtype
                )
                for own, dtype in results
            )
            return found if len(found) > 1 else found[0]

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        shapes.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(own, kind) for own in self.names]
        )
        shapes.__name__ = shapes.__qualname__ = name
        shapes.__doc__ = f"The C function {self.declaration}."
        return shapes


def _python_name(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def of(
    where: str, declaration: Declaration, axes: str | None, has_reference: bool
) -> Layout:
    """What each parameter is.

    A number is an element of an operand, or 0 for Cython's last parameter. A
    pointer to const is a row of an operand, another pointer a row of a result.
    An integer with the name of an axis is its size.

    Args:
      where: the name of the operation, for errors.
      declaration: the function.
      axes: those that the author gives; by default "(n)" for each pointer.
      has_reference: whether a reference tells the shapes of results.

    Raises:
      ValueError: the function cannot be an operation; the text says why.
    """
    arguments = _Reader(where, declaration, axes).arguments()
    made = Layout(declaration, arguments, _returns_status(declaration))
    if not made.results:
        expected = "a type before (, or a pointer that is not const"
        _refuse(where, declaration, expected, "no result")
    if not made.operands:
        _refuse(
            *(where, declaration, "at least one operand", "none"),
            _as_operand(declaration),
        )
    floats = sum(
        a.dtype.kind == "f" and not a.parameter.type.is_pointer
        for a in arguments
    )
    integers = len(arguments) - floats
    if floats > _MOST_FLOATS or integers > _MOST_INTEGERS:
        expected = (
            f"at most {_MOST_INTEGERS} integers and pointers and "
            f"{_MOST_FLOATS} floats, which registers pass (an array takes one "
            "pointer)"
        )
        _refuse(where, declaration, expected, f"{integers} and {floats}")
    told = {letter for a in made.operands for letter in a.letters}
    for result in made.results:
        free = [a for a in result.letters if not a.isdecimal()]
        unknown = sorted(set(free) - told)
        if unknown and not has_reference:
            expected = "a reference, or axes of results that operands have"
            raise ValueError(
                f"{where}: axes: expected {expected}, got {unknown[0]} in "
                f"{made.axes}"
            )
    return made


def _returns_status(declaration: Declaration) -> bool:
    """Whether it returns an integer beside results that it writes."""
    returned = declaration.returns
    return (
        returned is not None
        and returned.dtype.kind in "iu"
        and any(
            p.type.is_pointer and not p.type.is_const
            for p in declaration.parameters
        )
    )


def _as_operand(declaration: Declaration) -> str:
    """What to write if the author forgot const, or ""."""
    written = [p for p in declaration.parameters if p.type.is_pointer]
    if not written:
        return ""
    return f"; a pointer without const is a result: write const {written[0]}"


def _refuse(
    where: str,
    declaration: Declaration,
    expected: str,
    got: str,
    remedy: str = "",
) -> None:
    raise ValueError(
        f"{where}: signature: expected {expected}, got {got} in {declaration}"
        f"{remedy}"
    )


class _Reader:
    def __init__(
        self, where: str, declaration: Declaration, axes: str | None
    ) -> None:
        self._where, self._declaration = where, declaration
        self._parameters = declaration.parameters
        self._has_pointers = any(p.type.is_pointer for p in self._parameters)
        self._axes = axes
        self._given: tuple[list[Letters], list[Letters]] | None = None
        if axes is not None:
            self._given = kernel.parse(axes)
            if self._given is None:
                raise ValueError(
                    f"{where}: axes: expected some like '(m,n),(n)->(m)', got "
                    f"{axes!r}"
                )
        # Names of axes, which the sizes among the parameters have too.
        self._letters = (
            {letter for side in self._given for one in side for letter in one}
            if self._given
            else {"n"}
        )
        self._sizes = self._find_sizes()

    def _find_sizes(self) -> dict[int, str]:
        """The parameters that are sizes of axes, and which."""
        if not self._has_pointers:
            return {}
        integers = [
            (i, p.name)
            for i, p in enumerate(self._parameters)
            if p.type.dtype.kind in "iu" and not p.type.is_pointer
        ]
        sizes = {i: name for i, name in integers if name in self._letters}
        names = sorted(self._letters)
        if (
            not sizes
            and len(integers) == len(names) == 1
            and not integers[0][1]
        ):
            sizes[integers[0][0]] = names[0]
        if not sizes and self._given is None:
            raise ValueError(
                f"{self._where}: axes: expected those of each operand and "
                "result, such as '(3),(3)->()', or a parameter int64_t n, the "
                f"length of all rows, got none in {self._declaration}"
            )
        return sizes

    def arguments(self) -> tuple[Argument, ...]:
        made = []
        for i, parameter in enumerate(self._parameters):
            if i in self._sizes:
                size = (self._sizes[i],)
                made.append(Argument(parameter, Kind.SIZE, size))
                continue
            kind = Kind.VALUE
            letters: Letters = ()
            if parameter.name == SKIP_DISPATCH:
                kind = Kind.ZERO
            elif parameter.type.is_pointer:
                is_const = parameter.type.is_const
                kind = Kind.OPERAND if is_const else Kind.RESULT
                letters = ("n",)
            made.append(Argument(parameter, kind, letters))
        return tuple(made if self._given is None else self._with_axes(made))

    def _with_axes(self, made: Sequence[Argument]) -> list[Argument]:
        """The same with the axes that the author gives."""
        assert self._given is not None
        operands, results = (list(side) for side in self._given)
        returned = self._declaration.returns
        wanted = [
            sum(a.kind in (Kind.VALUE, Kind.OPERAND) for a in made),
            sum(a.kind == Kind.RESULT for a in made),
        ]
        returns = returned is not None and not _returns_status(
            self._declaration
        )
        if [len(operands), len(results)] != [wanted[0], wanted[1] + returns]:
            raise ValueError(
                f"{self._where}: axes: expected those of {wanted[0]} operands "
                f"and {wanted[1] + returns} results, as {self._declaration}, "
                f"got {self._axes}"
            )
        own = [results.pop(0)] if returns else []
        found = []
        for argument in made:
            if argument.kind in (Kind.VALUE, Kind.OPERAND):
                letters = operands.pop(0)
            elif argument.kind == Kind.RESULT:
                letters = results.pop(0)
            else:
                found.append(argument)
                continue
            if argument.kind == Kind.VALUE:
                own.append(letters)
            if len(letters) > _MOST_AXES:
                own.append(letters)
            found.append(dataclasses.replace(argument, letters=letters))
        wrong = [letters for letters in own if letters]
        if wrong:
            raise ValueError(
                f"{self._where}: axes: expected () for a number and at most "
                f"{_MOST_AXES} for a pointer, got ({','.join(wrong[0])}), as "
                f"{self._declaration}"
            )
        return found
