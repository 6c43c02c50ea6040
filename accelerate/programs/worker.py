"""A process that runs programs under one setting, and answers what it is asked.

A program is a call without arguments, which a function of a module makes. What
the processes differ in is XLA_FFI_ACCELERATE, or the packages that they have.
"""

from __future__ import annotations

import collections
import gc
import importlib
import json
import logging
import os
import pickle
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

VARIABLE = "XLA_FFI_ACCELERATE"


class Worker:
    """The process, from outside.

    Args:
      setting: the variable; empty for JAX's own code.
      folders: of the modules.
      python: which runs it.
      log: a file for what it says.
    """

    def __init__(
        self, setting: str, folders: Sequence[str], python: str, log: Any
    ) -> None:
        own = {k: v for k, v in os.environ.items() if k != VARIABLE}
        # Bazel's packages are those of this interpreter, and of one JAX.
        ours = own.get("PYTHONPATH") if python == sys.executable else None
        paths = [*folders, *filter(None, [ours])]
        own |= {"KERAS_BACKEND": "jax", "PYTHONPATH": os.pathsep.join(paths)}
        self._process = subprocess.Popen(
            [python, "-P", os.path.abspath(__file__)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=own | ({VARIABLE: setting} if setting else {}),
        )

    def first(self, module: str, function: str, *arguments: str) -> Any:
        """Makes a program, and calls it for the first time.

        Returns:
          seconds as "first", arrays as "leaves", operations that the package
          took as "replaced", and the version as "jax".
        """
        return self._ask([module, function, *arguments])

    def times(self, seconds: float) -> tuple[float, float]:
        """The median and the least time of calls in so many seconds."""
        median, least = self._ask(seconds)
        return median, least

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()

    def _ask(self, question: Any) -> Any:
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise EOFError from None
        return pickle.load(self._process.stdout)  # of a process of ours


class _Replaced(logging.Handler):
    """Counts what the package says it has lowered."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: collections.Counter[str] = collections.Counter()

    def emit(self, record: logging.LogRecord) -> None:
        self.counts[str(record.args[0])] += 1  # type: ignore[index]


def _main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a program prints is no answer
    warnings.simplefilter("ignore")
    replaced = _Replaced()
    log = logging.getLogger("xla_ffi_accelerate")
    log.setLevel(logging.DEBUG)
    log.addHandler(replaced)
    run: Any = None
    for line in sys.stdin:
        question = json.loads(line)
        if isinstance(question, list):
            module, function, *arguments = question
            run = getattr(importlib.import_module(module), function)(*arguments)
            answer: Any = {**_first(run), "replaced": dict(replaced.counts)}
            replaced.counts.clear()
        else:
            answer = _times(run, question)
        pickle.dump(answer, answers)
        answers.flush()


def _first(run: Callable[[], Any]) -> dict[str, Any]:
    import jax
    import numpy as np

    gc.collect()  # of what was imported: some calls would be met by it
    gc.freeze()
    began = time.perf_counter()
    results = jax.block_until_ready(run())
    seconds = time.perf_counter() - began
    leaves = [
        jax.random.key_data(leaf)
        if isinstance(leaf, jax.Array)
        and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        else leaf
        for leaf in jax.tree.leaves(results)
    ]
    arrays = [np.asarray(leaf) for leaf in leaves]
    return {"first": seconds, "leaves": arrays, "jax": jax.__version__}


def _times(run: Callable[[], Any], seconds: float) -> tuple[float, float]:
    import jax

    from measuring import turns

    times = turns({"": lambda: jax.block_until_ready(run())}, seconds)[""]
    return times.median, times.least


if __name__ == "__main__":
    _main()
