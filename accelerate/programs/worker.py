"""A process that runs one public program, and answers what it is asked.

    worker.py FOLDER PROGRAM

`run` starts it with XLA_FFI_ACCELERATE set or not; nothing else differs.
"""

from __future__ import annotations

import collections
import gc
import importlib
import logging
import os
import pickle
import sys
import time
import warnings


class _Replaced(logging.Handler):
    """Counts what the package says it has lowered."""

    def __init__(self):
        super().__init__()
        self.counts = collections.Counter()

    def emit(self, record):
        self.counts[str(record.args[0])] += 1


def _leaves(results):
    import jax
    import numpy as np

    found = []
    for leaf in jax.tree.leaves(results):
        if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(
            leaf.dtype, jax.dtypes.prng_key
        ):
            leaf = jax.random.key_data(leaf)
        found.append(np.asarray(leaf))
    return found


def main(folder, name):
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a program prints is no answer
    warnings.simplefilter("ignore")

    def answer(value):
        pickle.dump(value, answers)
        answers.flush()

    replaced = _Replaced()
    log = logging.getLogger("xla_ffi_accelerate")
    log.setLevel(logging.DEBUG)
    log.addHandler(replaced)
    sys.path.insert(0, folder)
    import jax

    run = importlib.import_module(name).program()
    gc.collect()  # of what was imported: some calls would be met by it
    gc.freeze()
    began = time.perf_counter()
    results = jax.block_until_ready(run())
    answer(time.perf_counter() - began)
    answer(_leaves(results))
    answer(dict(replaced.counts))
    for line in sys.stdin:
        answer(_least(run, float(line)))


def _least(run, seconds):
    """The shortest of the runs that begin within so many seconds."""
    import jax

    least, end = float("inf"), time.perf_counter() + seconds
    while True:
        began = time.perf_counter()
        jax.block_until_ready(run())
        now = time.perf_counter()
        least = min(least, now - began)
        if now >= end:
            return least


if __name__ == "__main__":
    main(*sys.argv[1:])
