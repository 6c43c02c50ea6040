"""Another build of a library in this process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

import jax

import xla_ffi_kit


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
