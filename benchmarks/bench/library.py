"""Another build of a library in this process, or the kit's once more."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from unittest import mock

import jax

import xla_ffi_kit
from xla_ffi_kit.ops import LIBRARIES

THREADS = "XLA_FFI_KIT_THREADS"
_ONE_THREAD = "one_thread."


def register(path: str, prefix: str) -> None:
    """Registers the handlers of the library at `path` under other names."""
    library = xla_ffi_kit.HandlerLibrary(path)
    for (target, platform), handler in library.handlers.items():
        stages = {s: jax.ffi.pycapsule(a) for s, a in handler.stages.items()}
        if platform == "cpu":
            jax.ffi.register_ffi_target(prefix + target, stages, "cpu")


@contextlib.contextmanager
def calls(prefix: str) -> Iterator[None]:
    """What is compiled in it calls the handlers of that prefix."""
    build = jax.ffi.build_ffi_lowering_function
    # What was traced before would be taken from a cache.
    jax.clear_caches()
    with mock.patch.object(
        jax.ffi,
        "build_ffi_lowering_function",
        lambda target, **options: build(prefix + target, **options),
    ):
        yield
    jax.clear_caches()


@contextlib.contextmanager
def on_one_thread() -> Iterator[None]:
    """What is compiled in it runs the kit's handlers on one thread."""
    _load_for_one_thread()
    with calls(_ONE_THREAD):
        yield


@functools.cache
def _load_for_one_thread() -> None:
    # The number of threads is read when a library is loaded. What is loaded
    # already is not loaded again, so it is a copy.
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(LIBRARIES[0].path, folder)
        with mock.patch.dict(os.environ, {THREADS: "1"}):
            register(copy, _ONE_THREAD)
