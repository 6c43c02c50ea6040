"""A pytest plugin: what tests would call on a GPU, and what they register.

Without a GPU, it stands in for JAX's CUDA plugin, takes down what is registered
with it, and lowers for CUDA what tests trace or compile. At the end it writes
both lists of custom call targets into the file that $CALLED_TARGETS names.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
from typing import Any

import jax
from jaxlib import xla_client

_CALL = re.compile(r"stablehlo\.custom_call @([\w.]+)\(")
_jit, _local_devices = jax.jit, jax.local_devices
_called: set[str] = set()
_registered: set[str] = set()


def _record(traced: Any) -> Any:
    lowered = traced.lower(lowering_platforms=("cuda",))
    _called.update(_CALL.findall(lowered.as_text()))
    return traced


class _Jitted:
    """A function of jax.jit() whose programs are also lowered for CUDA."""

    def __init__(self, function: Any, **options: Any) -> None:
        self._jitted = _jit(function, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        _record(self._jitted.trace(*args, **kwargs))
        return self._jitted(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jitted, name)

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        return _record(self._jitted.trace(*args, **kwargs))


def _take_handler(name: str, *_: Any) -> None:
    _registered.add(name)


class _Gpu:
    """As much of a GPU as registration and strings ask for."""

    compute_capability = "9.0"


def _devices(backend: Any = None, **arguments: Any) -> Any:
    if backend == "cuda":
        return [_Gpu()]
    return _local_devices(backend=backend, **arguments)


def pytest_configure() -> None:
    """Before any test is imported."""
    xla_client.register_custom_call_handler("CUDA", _take_handler)
    xla_client.register_custom_type_handler("CUDA", lambda *_: None)
    jax.jit, jax.local_devices = _Jitted, _devices


def pytest_sessionfinish() -> None:
    """After all tests."""
    lists = {"called": sorted(_called), "registered": sorted(_registered)}
    pathlib.Path(os.environ["CALLED_TARGETS"]).write_text(json.dumps(lists))
