"""A process that runs loops under one setting, and answers what it is asked."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

# Mode -> what `enable_from` takes; "C++" is JAX's own code around the C++.
MODES = {"plain": "", "exact": "exact", "all": "all", "C++": ""}


class Worker:
    """The process, from outside."""

    def __init__(self, mode: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def ask(self, **question: Any) -> Any:
        """The answer; None if the mode does not have the program."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        self._process.stdin.flush()
        return self.results()

    def results(self) -> Any:
        """What else it has to say."""
        assert self._process.stdout
        return pickle.load(self._process.stdout)  # of a process of ours

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def names() -> Sequence[str]:
    """The programs that there are, in the page's order."""
    return list(_programs("plain"))


def _programs(mode: str) -> dict[str, Any]:
    import loop_by_hand
    import loop_dynamics
    import loop_filters
    import loop_operations

    if mode == "C++":
        return {p.name: p for p in loop_by_hand.programs()}
    found = {}
    for program in (*loop_filters.programs(), *loop_dynamics.programs()):
        found[program.name] = program
        if program.has_gradient:
            gradient = program.gradient()
            found[gradient.name] = gradient
    for program in loop_operations.programs():
        found[program.name] = program
    return found


def _main(mode: str) -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer

    def answer(value: Any) -> None:
        pickle.dump(value, answers)
        answers.flush()

    import jax

    if MODES[mode]:
        import xla_ffi_accelerate.switch

        xla_ffi_accelerate.switch.enable_from(MODES[mode])
    programs = _programs(mode)
    call, steps = (lambda: None), 1
    for line in sys.stdin:
        question = json.loads(line)
        if question["do"] == "version":
            answer(jax.__version__)
        elif question["do"] == "time":
            answer(_least(call, question["seconds"]) / steps * 1e9)
        elif question["program"] not in programs:
            answer(None)
        else:
            program = programs[question["program"]]
            jitted, steps = jax.jit(program.run), program.steps
            began = time.perf_counter()
            results = jax.block_until_ready(jitted(*program.arguments))
            answer({"seconds": time.perf_counter() - began})
            answer([_array(x) for x in jax.tree.leaves(results)])

            def call(jitted: Any = jitted, program: Any = program) -> None:
                jax.block_until_ready(jitted(*program.arguments))


def _array(x: Any) -> Any:
    import numpy as np

    return np.asarray(x)


def _least(call: Any, seconds: float) -> float:
    least, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - began)
    return least


if __name__ == "__main__":
    _main(sys.argv[1])
