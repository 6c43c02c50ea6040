"""What the parameters of a C function are to an operation."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence

import jax
import numpy as np

from xla_ffi_kit._check import Typed
from xla_ffi_kit.functions import declaration as declarations
from xla_ffi_kit.functions.declaration import (
    CHAR,
    SKIP_DISPATCH,
    Declaration,
    Parameter,
)
from xla_ffi_kit.op import axes as kernel
from xla_ffi_kit.op.axes import Letters
from xla_ffi_kit.op.spec import ShapeFunction

_ROLES = (
    "in (an operand, of which it gets a copy), out (a result, of which it "
    "reads nothing), inout (an operand that it makes a result of), scratch "
    "(memory to work in), status (0, or what is wrong) or const"
)

# Of operators, in the name of an axis.
_WORDS = str.maketrans(
    {"-": "_minus_", "+": "_plus_", "*": "_times_", "/": "_by_"}
)


class Kind(enum.Enum):
    """What a parameter gets."""

    VALUE = enum.auto()  # an element of an operand
    OPERAND = enum.auto()  # the address of a row of an operand
    RESULT = enum.auto()  # the address of a row of a result
    COPY = enum.auto()  # the address of a copy of an operand's row
    IN_OUT = enum.auto()  # the same, where the operand's row is before
    SCRATCH = enum.auto()  # the address of memory of the thread
    CONSTANT = enum.auto()  # a number of the declaration, or a size of an axis
    STATUS = enum.auto()  # the address of an integer, 0 if all is well


_OPERANDS = (Kind.VALUE, Kind.OPERAND, Kind.COPY, Kind.IN_OUT)
_RESULTS = (Kind.RESULT, Kind.IN_OUT)
_KINDS = {
    "": Kind.OPERAND,
    "in": Kind.COPY,
    "out": Kind.RESULT,
    "inout": Kind.IN_OUT,
}


@dataclasses.dataclass(frozen=True)
class Argument:
    """A parameter with its kind, or what is returned.

    Attributes:
      parameter: the parameter.
      kind: what it gets.
      letters: the names of a row's axes, a number for a size that is given.
      sizes: the same as they were written: "n-1" has a name of its own.
    """

    parameter: Parameter
    kind: Kind
    letters: Letters = ()
    sizes: Letters = ()

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of the number, or of a row's elements."""
        return self.parameter.type.dtype

    @property
    def is_operand(self) -> bool:
        """Whether it is an operand of the operation."""
        return self.kind in _OPERANDS

    @property
    def is_result(self) -> bool:
        """Whether it is a result that the function writes."""
        return self.kind in _RESULTS

    @property
    def order(self) -> tuple[int, ...] | None:
        """The order of its axes in memory, None for the usual one."""
        if not self.parameter.is_fortran or len(self.letters) < 2:
            return None
        return tuple(reversed(range(len(self.letters))))


@dataclasses.dataclass(frozen=True)
class Layout:
    """A C function as an operation.

    Attributes:
      declaration: the function.
      arguments: its parameters.
      returns_status: whether the integer that it returns is an error's number.
    """

    declaration: Declaration
    arguments: tuple[Argument, ...]
    returns_status: bool

    @property
    def operands(self) -> list[Argument]:
        """The operands of the operation, in their order."""
        return [a for a in self.arguments if a.is_operand]

    @property
    def has_status(self) -> bool:
        """Whether the function says that it failed."""
        kinds = {a.kind for a in self.arguments}
        return self.returns_status or Kind.STATUS in kinds

    @property
    def returned(self) -> Argument | None:
        """The result that the function returns."""
        returns = self.declaration.returns
        if returns is None or self.returns_status:
            return None
        return Argument(Parameter(returns), Kind.VALUE)

    @property
    def results(self) -> list[Argument]:
        """The results: what the function returns, then what it writes."""
        first = [] if self.returned is None else [self.returned]
        return first + [a for a in self.arguments if a.is_result]

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
        return _names("x", [a.parameter.name for a in self.operands])

    @property
    def result_names(self) -> list[str]:
        """Names of the results."""
        return _names("result", [a.parameter.name for a in self.results])

    def shapes(self, name: str) -> ShapeFunction:
        """The shape function of the operation."""
        operands, results, names = self.operands, self.results, self.names

        def shapes(*types: Typed) -> Typed | tuple[Typed, ...]:
            known = {
                size: length
                for a, x in zip(operands, types, strict=True)
                for size, length in zip(a.sizes, x.shape, strict=True)
                if size.isidentifier()
            }
            for own, a, x in zip(names, operands, types, strict=True):
                _check_sizes(f"operand {own}", a, x, known)
            found = tuple(
                jax.ShapeDtypeStruct(
                    [declarations.evaluate(size, known) for size in a.sizes],
                    a.dtype,
                )
                for a in results
            )
            return found if len(found) > 1 else found[0]

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        shapes.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(own, kind) for own in names]
        )
        shapes.__name__ = shapes.__qualname__ = name
        shapes.__doc__ = f"The C function {self.declaration}."
        return shapes


def _names(default: str, names: Sequence[str]) -> list[str]:
    one = len(names) == 1
    return [
        f"{name}_"
        if keyword.iskeyword(name)
        else name or (default if one else f"{default}{i}")
        for i, name in enumerate(names)
    ]


def _check_sizes(
    what: str, a: Argument, x: Typed, known: Mapping[str, int]
) -> None:
    """ValueError if an axis has not the size that others say; n-1."""
    for axis, size in enumerate(a.sizes, -len(a.sizes)):
        if size.isidentifier() or size.isdecimal():
            continue  # axes of one name are checked by the operation
        length = declarations.evaluate(size, known)
        if x.shape[axis] != length:
            raise ValueError(
                f"{what}: expected axis {axis} of size {size} = {length}, got "
                f"{x.shape[axis]}"
            )


def of(
    where: str, declaration: Declaration, axes: str | None, has_reference: bool
) -> Layout:
    """What each parameter is.

    Args:
      where: the name of the operation, for errors.
      declaration: the function.
      axes: those of operands and results, if the declaration has no arrays; by
        default "(n)" for each pointer.
      has_reference: whether a reference tells the shapes of results.

    Raises:
      ValueError: the function cannot be an operation; the text says why.
    """
    reader = _Reader(where, declaration, axes)
    made = Layout(declaration, reader.arguments(), reader.returns_status)
    if not made.results:
        expected = "a type before (, or an array that is out or inout"
        _refuse(where, declaration, expected, "no result")
    if not made.operands:
        remedy = ""
        if written := [a for a in made.results if a.kind == Kind.RESULT]:
            given = written[0].parameter
            remedy = f"; an operand is const, in or inout: {given}"
        _refuse(where, declaration, "at least one operand", "none", remedy)
    told = {size for a in made.operands for size in a.sizes}
    for a in made.arguments:
        unknown = [n for n in _needed(a) if n not in told]
        if unknown and not (has_reference and a.kind == Kind.RESULT):
            expected = "a reference, or axes of results that operands have"
            if a.kind != Kind.RESULT:
                expected = f"axes that operands have for {a.parameter}"
            raise ValueError(
                f"{where}: axes: expected {expected}, got {unknown[0]} in "
                f"{made.axes}"
            )
    return made


def _needed(a: Argument) -> Iterator[str]:
    """The axes that a parameter's sizes, or its value, are computed from."""
    for size in a.sizes:
        yield from declarations.names_of(size)
    value = a.parameter.value
    if a.kind == Kind.CONSTANT and declarations.is_size(value):
        yield from declarations.names_of(value)


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
        self._axes = axes
        self._parsed: tuple[list[Letters], list[Letters]] | None = None
        self._has_pointers = any(p.type.is_pointer for p in self._parameters)
        arrays = [p for p in self._parameters if p.sizes and self._is_data(p)]
        if axes is not None:
            self._parsed = kernel.parse(axes)
            if self._parsed is None:
                expected = "some like '(m,n),(n)->(m)'"
                raise ValueError(
                    f"{where}: axes: expected {expected}, got {axes!r}"
                )
            if arrays:
                raise ValueError(
                    f"{where}: axes: expected none, as the signature has those "
                    f"of {arrays[0]}, got {axes!r}"
                )
            sides = [one for side in self._parsed for one in side]
        else:
            sides = [p.sizes or () for p in arrays] or [("n",)]
        self._has_arrays = bool(arrays)
        # Names of axes, which the sizes among the parameters have too.
        self._letters = {x for one in sides for x in one if x.isidentifier()}
        self._sizes = self._find_sizes()
        self.returns_status = self._returns_status()

    @staticmethod
    def _is_data(p: Parameter) -> bool:
        return p.role not in ("scratch", "status")

    def _returns_status(self) -> bool:
        """Whether it returns an error's number, as beside other results."""
        returned, role = self._declaration.returns, self._declaration.role
        is_integer = returned is not None and returned.dtype.kind in "iu"
        if role == "status" and not is_integer:
            expected = "an integer as status"
            _refuse(self._where, self._declaration, expected, str(returned))
        return is_integer and (
            role == "status"
            or (
                not role
                and any(p.role in ("out", "inout") for p in self._parameters)
            )
        )

    def _find_sizes(self) -> dict[int, str]:
        """The parameters that are sizes of axes, and which."""
        if not self._has_pointers:
            return {}
        integers = [
            (i, p)
            for i, p in enumerate(self._parameters)
            if p.type.dtype.kind in "iu"
            and not (p.role or p.value or p.sizes or p.name == SKIP_DISPATCH)
        ]
        sizes = {i: p.name for i, p in integers if p.name in self._letters}
        numbers = [i for i, p in integers if not p.type.is_pointer]
        only = sorted(self._letters)
        if not sizes and len(numbers) == len(only) == 1:
            if not self._parameters[numbers[0]].name:
                sizes[numbers[0]] = only[0]
        if not sizes and self._axes is None and not self._has_arrays:
            raise ValueError(
                f"{self._where}: axes: expected those of each array, such as "
                "const double x[3], a parameter int64_t n, the length of all "
                "rows, or axes=, as '()->()' for single numbers, got none in "
                f"{self._declaration}"
            )
        return sizes

    def arguments(self) -> tuple[Argument, ...]:
        made = [self._argument(i, p) for i, p in enumerate(self._parameters)]
        if self._parsed is not None:
            made = self._with_axes(made, *map(list, self._parsed))
        return tuple(map(self._named, made))

    def _argument(self, i: int, p: Parameter) -> Argument:
        """A parameter with the axes that it has without `axes`."""
        if p.name == SKIP_DISPATCH:
            return Argument(dataclasses.replace(p, value="0"), Kind.CONSTANT)
        if i in self._sizes:
            own = dataclasses.replace(p, value=self._sizes[i])
            return Argument(own, Kind.CONSTANT)
        if p.value:
            return Argument(p, Kind.CONSTANT)
        self._check(p)
        if not p.type.is_pointer:
            return Argument(p, Kind.VALUE)
        if p.role == "status":
            return Argument(p, Kind.STATUS)
        sizes = p.sizes or ()
        if p.role == "scratch":
            return Argument(p, Kind.SCRATCH, sizes=sizes)
        if self._axes is None and not self._has_arrays:
            sizes = ("n",)
        return Argument(p, _KINDS[p.role], sizes=sizes)

    def _check(self, p: Parameter) -> None:
        """Refuses what says too little, or what C has not."""
        refuse, got = "", str(p)
        if p.role and not p.type.is_pointer:
            refuse = f"an array or a pointer that is {p.role}"
        elif p.role == "status" and (p.sizes or p.type.dtype.kind not in "iu"):
            refuse = "a pointer to an integer as status"
        elif p.type.dtype == CHAR and p.role != "scratch":
            refuse = "the value of what is no number, such as char* uplo = 'U'"
        elif p.type.is_pointer and not p.type.is_const and not p.role:
            refuse = f"before a pointer without const, {_ROLES}"
        elif p.type.is_const and p.role and p.type.is_pointer:
            refuse = f"no const beside {p.role}"
        if refuse:
            _refuse(self._where, self._declaration, refuse, got)

    def _with_axes(
        self,
        made: Sequence[Argument],
        operands: list[Letters],
        results: list[Letters],
    ) -> list[Argument]:
        """The same with the axes that the author gives."""
        taken = [
            sum(a.is_operand for a in made),
            sum(a.is_result for a in made),
        ]
        returns = self._declaration.returns
        is_first = returns is not None and not self.returns_status
        if [len(operands), len(results)] != [taken[0], taken[1] + is_first]:
            raise ValueError(
                f"{self._where}: axes: expected those of {taken[0]} operands "
                f"and {taken[1] + is_first} results, as {self._declaration}, "
                f"got {self._axes}"
            )
        numbers = [results.pop(0)] if is_first else []
        found = []
        for a in made:
            letters = [operands.pop(0)] if a.is_operand else []
            letters += [results.pop(0)] if a.is_result else []
            if a.kind == Kind.VALUE:
                numbers += letters
            if letters[1:] and letters[0] != letters[1]:
                raise ValueError(
                    f"{self._where}: axes: expected the same of an operand and "
                    f"its result for {a.parameter}, got {self._axes}"
                )
            if letters:
                a = dataclasses.replace(a, sizes=letters[0])
            found.append(a)
        wrong = [letters for letters in numbers if letters]
        if wrong:
            raise ValueError(
                f"{self._where}: axes: expected () for a number, got "
                f"({','.join(wrong[0])}), as {self._declaration}"
            )
        return found

    def _named(self, a: Argument) -> Argument:
        """The same with a name for each axis: of "n-1" one of its own."""
        letters = tuple(
            size
            if size.isalnum() or size.isidentifier()
            else re.sub(r"\W+", "_", size.translate(_WORDS)).strip("_")
            for size in a.sizes
        )
        return dataclasses.replace(a, letters=letters)
