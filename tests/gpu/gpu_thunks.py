"""Which handlers XLA captured in CUDA graphs, read out of what it dumps.

XLA writes three files for each program that matter here:

* `NAME.thunk_sequence.txt`, the thunks before its thunk passes, and
  `NAME.thunk_sequence_after_thunk_passes.txt`, where a pass changed them: one
  thunk a line, as `002: kCustomCall`, those that a thunk runs indented by more
  below it. A thunk below a `kCommandBuffer` is captured in a CUDA graph.
* `NAME.thunk_metadata.txt`: the HLO instruction that each number stands for.
* `NAME.sm_9.0_gpu_after_optimizations.txt`: the HLO, in which a custom call
  names its handler.
"""

from __future__ import annotations

import collections
import pathlib
import re

_THUNK = re.compile(r"( *)(\d+): +(k\w+)")
_INFO = re.compile(r"\bthunk_info\s*{([^}]*)}")
_CALL = re.compile(r'%?([\w.-]+) = .*\bcustom_call_target="([^"]+)"')


def custom_calls(thunks: str) -> dict[int, bool]:
    """The number of each custom call's thunk, and whether it is captured."""
    found: dict[int, bool] = {}
    around: list[tuple[int, str]] = []  # the thunks that run this one
    for line in thunks.splitlines():
        thunk = _THUNK.match(line)
        if not thunk:
            continue
        indent, kind = len(thunk[1]), thunk[3]
        while around and around[-1][0] >= indent:
            around.pop()
        if kind == "kCustomCall":
            captured = any(outer == "kCommandBuffer" for _, outer in around)
            found[int(thunk[2])] = captured
        around.append((indent, kind))
    return found


def instructions(metadata: str) -> dict[int, str]:
    """The HLO instruction of each thunk, by the thunk's number."""
    found = {}
    for info in _INFO.findall(metadata):
        name = re.search(r'profile_annotation: "([^"]*)"', info)
        number = re.search(r"thunk_id: (\d+)", info)
        if name and number:
            found[int(number[1])] = name[1]
    return found


def targets(hlo: str) -> dict[str, str]:
    """The handler's name of each custom call, by the instruction's name."""
    return dict(_CALL.findall(hlo))


def captured(thunks: str, metadata: str, hlo: str) -> dict[str, set[bool]]:
    """For each handler's name whether XLA captured its calls: {True} if all.

    Raises:
      ValueError: for a custom call whose handler the texts do not name.
    """
    names, handlers = instructions(metadata), targets(hlo)
    found = collections.defaultdict(set)
    for number, is_captured in custom_calls(thunks).items():
        instruction = names.get(number, "")
        if instruction not in handlers:
            raise ValueError(
                f"thunk {number} is the custom call {instruction!r}, expected "
                f"one of {sorted(handlers)}"
            )
        found[handlers[instruction]].add(is_captured)
    return dict(found)


def _one(folder: pathlib.Path, pattern: str) -> str:
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        seen = sorted(path.name for path in folder.iterdir())
        raise ValueError(f"expected one {pattern}, got {files} of {seen}")
    return files[0].read_text()


def read_dump(folder: pathlib.Path, program: str) -> dict[str, set[bool]]:
    """The same for one program of a dump, `jit_f` for a function f."""
    name = f"module_*.{program}"
    changed = f"{name}.thunk_sequence_after_thunk_passes.txt"
    if not list(folder.glob(changed)):  # no pass captured anything
        changed = f"{name}.thunk_sequence.txt"
    return captured(
        _one(folder, changed),
        _one(folder, f"{name}.thunk_metadata.txt"),
        _one(folder, f"{name}.*gpu_after_optimizations.txt"),
    )
