"""Versions, devices, libraries and operations of the running environment."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import os
import platform
from collections.abc import Callable, Iterable, Iterator

import jax
import jaxlib
import numpy as np

from xla_ffi_kit import ffi_op
from xla_ffi_kit.doctor import _library_report
from xla_ffi_kit.doctor._library_report import Report, Runtime
from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.library import registration, releases
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES, HandlerLibrary
from xla_ffi_kit.op import implementation, reference_switch
from xla_ffi_kit.op.spec import Result

Loading = Callable[[str], None]  # gets the name of what is loaded next


def runtime() -> Runtime:
    """The running jaxlib."""
    return jaxlib.__version__, registration.runtime_api_version()


def examine(
    operations: Iterable[FfiOp[Result]] | None = None,
    loading: Loading = lambda _: None,
) -> Report:
    """Starts JAX's backends; returns what JSON shows, of all operations."""
    if operations is None:
        operations = ffi_op.operations()
    specs = [operation.spec for operation in operations]
    libraries = []
    used = (library for spec in specs for library in spec.libraries)
    for library in {lib.path: lib for lib in (*KIT_LIBRARIES, *used)}.values():
        loading(library.path)
        libraries.append(_library(library, runtime()))
    loading("a backend of JAX")
    devices = _devices()
    states = [
        dataclasses.asdict(implementation.of(spec, name, devices))
        for spec in specs
        for name in sorted(spec.handlers)
    ]
    _, ours = runtime()
    return {
        "versions": _versions(),  # of Python and the packages that matter
        "runtime": ours and releases.dots(ours),  # FFI version of jaxlib
        "plugins": {  # JAX plugin -> version
            entry.name: entry.dist.version if entry.dist else "unknown version"
            for entry in importlib.metadata.entry_points(group="jax_plugins")
        },
        "devices": devices,  # platform -> number of devices
        "libraries": libraries,  # of the kit and of the operations
        "operations": states,  # per platform
        # Title -> what a package built on the kit says of itself, by name.
        "sections": dict(_sections(loading)),
        "switched": os.environ.get(reference_switch.ENVIRONMENT_VARIABLE, ""),
        "loads": not any(s["problem"] for s in (*libraries, *states)),
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    found |= {p.__name__: p.__version__ for p in (jax, jaxlib, np)}
    # Under Bazel it is not installed.
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found["xla_ffi_kit"] = importlib.metadata.version("xla_ffi_kit")
    return found


def _sections(loading: Loading) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields what packages with entry points `xla_ffi_kit.doctor` say.

    An entry point is a function without arguments that returns a section's
    lines, name -> state.
    """
    entries = importlib.metadata.entry_points(group="xla_ffi_kit.doctor")
    for entry in sorted(entries, key=lambda entry: entry.name):
        loading(entry.value)
        yield entry.name, entry.load()()


def _devices() -> dict[str, int]:
    """Platform -> number of this process's devices."""
    counts = {}
    for name in ("cpu", "cuda", "rocm", "tpu"):
        with contextlib.suppress(RuntimeError):  # no such backend here
            counts[name] = len(jax.local_devices(backend=name))
    return counts


def _library(library: HandlerLibrary, ours: Runtime) -> Report:
    state = {
        "path": library.path,
        "platforms": [],  # of its handlers: "cpu", "cuda"
        "handlers": 0,  # how many it has
        "api_version": None,  # of the FFI headers it was built with
        "problem": None,  # why it does not load
        "absent": False,  # it does not exist, and need not
    }
    if library.is_file and library.optional and not library.exists:
        return state | {"absent": True}
    if not library.is_file:
        handlers = library.handlers.values()
        version = max(handler.metadata().api_version for handler in handlers)
        return state | {
            "platforms": library.platforms(),
            "handlers": len(handlers),
            "api_version": releases.dots(version),
        }
    try:
        found = _library_report.examine(library.path, ours)["handlers"]
    except HandlerLibraryError as error:
        return state | {"problem": str(error)}
    return state | {
        "platforms": sorted({h["platform"] for h in found}),
        "handlers": len(found),
        "api_version": max(h["api_version"] or "" for h in found),
        "problem": next((h["problem"] for h in found if h["problem"]), None),
    }
