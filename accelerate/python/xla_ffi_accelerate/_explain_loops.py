"""Finds the loops that XLA compiled to one function, and why others are not.

XLA's CPU compiler moves a loop that it compiles to one function into a call
that it marks. In any other loop, each operation of a step is a task.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping, Sequence

import jax

from xla_ffi_accelerate import _loops, registry

# They call something, or are given threads. From jax 0.10 on, XLA takes a
# product that is not handed to a library.
_CALLS = {
    *("all-gather", "all-reduce", "all-to-all", "collective-permute"),
    *("convolution", "custom-call", "fft", "infeed", "outfeed"),
    *("reduce-scatter", "scatter", "sort"),
}
if jax.__version_info__ < (0, 10):
    _CALLS.add("dot")
# The package's calls of what XLA itself would make part of a function.
_OWN = re.compile(
    r'custom_call_target="xla_ffi_accelerate\.'
    r'(argmax|cumlogsumexp|cumulative|random_bits|threefry2x32)"'
)
_LARGE = 1024  # bytes of an array: to copy it takes as long as a task

_HEAD = re.compile(r"^(?:ENTRY )?%([\w.-]+) \(")
_OPERATION = re.compile(r"= (.*?) ([a-z][a-z0-9-]*)\(")
_CALLED = re.compile(r"(?:to_apply|body|condition|calls)=%([\w.-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_NAME = re.compile(r'op_name="([^"]*)"')
_STEPS = re.compile(r'known_trip_count":\{"n":"(\d+)"')
_ARRAY = re.compile(r"^[a-z]+(\d+)\[([\d,]*)\]")


@dataclasses.dataclass(frozen=True)
class Loop:
    """A loop of a compiled program.

    Attributes:
      where: the line of the program, or JAX's name of the loop.
      steps: the number of steps, if XLA knows it.
      is_one_function: whether it is one function. If not, its operations are
        tasks.
      calls: the operations that keep it from being one.
      advice: what would help.
      copied: the size of the largest array that each step copies, in bytes.
    """

    where: str
    steps: int | None
    is_one_function: bool
    calls: Sequence[str] = ()
    advice: str = ""
    copied: int = 0

    def __str__(self) -> str:
        steps = f"{self.steps} steps" if self.steps else "a loop"
        blamed = f" because of {', '.join(self.calls)}" if self.calls else ""
        kind = "one function" if self.is_one_function else f"tasks{blamed}"
        parts = [f"{self.where}: {steps}, {kind}", self.advice]
        if self.copied >= _LARGE:
            parts.append(
                f"each step copies {self.copied} bytes: read an array from "
                "what a step has written, not beside it"
            )
        return "; ".join(filter(None, parts))


@dataclasses.dataclass(frozen=True)
class _Operation:
    kind: str
    line: str
    type: str

    def called(self) -> list[str]:
        """The computations that it refers to."""
        branches = _BRANCHES.search(self.line)
        found = re.findall(r"%([\w.-]+)", branches[1]) if branches else []
        return found + _CALLED.findall(self.line)

    def name(self) -> str:
        """JAX's name of the operation."""
        found = _NAME.search(self.line)
        return found[1].rpartition("/")[2] if found else self.kind


_Program = Mapping[str, Sequence[_Operation]]


def loops(text: str, names: frozenset[str]) -> list[Loop]:
    """The loops of a program that XLA has compiled; `names` are on."""
    program = _parsed(text)
    compact: set[str] = set()
    for operations in program.values():
        for operation in operations:
            if 'xla_cpu_small_call="true"' in operation.line:
                compact |= _reached(program, operation)
    bodies = {
        name
        for operations in program.values()
        for operation in operations
        if operation.kind == "while"
        for name in operation.called()
    }
    lines = _lines(text)
    found: list[Loop] = []
    for computation, operations in program.items():
        for operation in operations:
            # A loop within a function is part of the function.
            is_inner = computation in compact and computation in bodies
            if operation.kind == "while" and not is_inner:
                is_one = computation in compact
                found.append(_loop(program, operation, is_one, lines, names))
    return found


def _parsed(text: str) -> _Program:
    program: dict[str, list[_Operation]] = {}
    operations: list[_Operation] = []
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head:
            operations = program.setdefault(head[1], [])
            continue
        found = _OPERATION.search(line)
        if found:
            operations.append(_Operation(found[2], line, found[1]))
    return program


def _reached(program: _Program, operation: _Operation) -> set[str]:
    """The computations of an operation, and of those in them."""
    found: set[str] = set()
    waiting = operation.called()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            for inner in program.get(name, ()):
                waiting += inner.called()
    return found


def _loop(
    program: _Program,
    loop: _Operation,
    is_one: bool,
    lines: Mapping[str, str],
    names: frozenset[str],
) -> Loop:
    steps = _STEPS.search(loop.line)
    frame = re.search(r"stack_frame_id=(\d+)", loop.line)
    name = _NAME.search(loop.line)
    where = lines.get(frame[1], "") if frame else ""
    where = where or (name[1] if name else "while")
    count = int(steps[1]) if steps else None
    inner = [
        operation
        for computation in sorted(_reached(program, loop))
        for operation in program.get(computation, ())
    ]
    calls = dict.fromkeys(
        operation.name() for operation in inner if _is_call(operation)
    )
    copied = max(
        (
            _bytes(operation.type)
            for operation in inner
            if operation.kind == "copy"
        ),
        default=0,
    )
    if is_one:
        return Loop(where, count, True, copied=copied)
    if calls and all(_OWN.search(x.line) for x in inner if _is_call(x)):
        advice = (
            "only this package's calls are to blame; if it is faster under "
            "disabled(), please report it"
        )
    else:
        advice = _advice(list(calls), copied, names)
    return Loop(where, count, False, list(calls), advice, copied)


def _is_call(operation: _Operation) -> bool:
    return operation.kind in _CALLS or "kind=kCustom" in operation.line


def _advice(calls: list[str], copied: int, names: frozenset[str]) -> str:
    room = "" if _loops.has_room() else 'enable("loops") before JAX starts'
    if calls:
        helping = dict.fromkeys(
            name for call in calls for name in _written_out(call)
        )
        # Of those, "loops" has to be on before JAX starts, to make room.
        known = {*names, "loops"} if room else names
        off = [f'"{name}"' for name in helping if name not in known]
        parts = [f"enable({', '.join(off)})"] if off else []
        parts += [room] if room and helping else []
        if parts:
            verb = "writes" if len(parts) == 1 else "write"
            return f"{' and '.join(parts)} {verb} small ones out"
        return "they are too large to be written out, or no rule does"
    if copied >= _LARGE:
        return ""
    if room:
        return f"{room} makes it one"
    return "its operations read and write more than XLA's limit"


def _written_out(primitive: str) -> Iterator[str]:
    for name, rules in registry.RULES.items():
        for rule in rules:
            own = rule.primitive_name
            if rule.target is None and own == primitive.replace("-", "_"):
                yield name


def _bytes(shape: str) -> int:
    array = _ARRAY.match(shape)
    if not array:
        return 0
    size = int(array[1]) // 8
    for n in filter(None, array[2].split(",")):
        size *= int(n)
    return size


def _lines(text: str) -> dict[str, str]:
    """Stack frame -> "file:line", as the program's head has it."""
    # Files come before functions, which have numbers too.
    head = text.partition("FunctionNames")[0]
    files = dict(re.findall(r'^(\d+) "(.*)"$', head, re.MULTILINE))
    places = {
        place: f"{os.path.basename(files.get(file, '?'))}:{line}"
        for place, file, line in re.findall(
            r"^(\d+) \{file_name_id=(\d+) .*?\bline=(\d+)", text, re.MULTILINE
        )
    }
    frames = re.findall(r"^(\d+) \{file_location_id=(\d+)", text, re.MULTILINE)
    return {frame: places.get(place, "") for frame, place in frames}
