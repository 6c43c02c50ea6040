"""Versions, devices, libraries and operations of the running environment."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
from collections.abc import Iterator, Sequence

import jax
import jaxlib

from xla_ffi_kit.doctor import _library_report, known_faults
from xla_ffi_kit.doctor._library_report import Runtime
from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.library import handler_library, registration
from xla_ffi_kit.library.handler_library import (
    KIT_LIBRARIES,
    HandlerLibrary,
)
from xla_ffi_kit.primitive import ffi_op, reference_switch
from xla_ffi_kit.primitive.device_kernel import DeviceKernel
from xla_ffi_kit.primitive.ffi_op import FfiOp
from xla_ffi_kit.primitive.spec import OpSpec, Result


@dataclasses.dataclass(frozen=True)
class LibraryState:
    """A library from which operations take their handlers."""

    path: str
    platforms: tuple[str, ...] = ()  # of its handlers: "cpu", "cuda"
    handlers: int = 0  # how many it has
    api_version: str | None = None  # of the FFI headers it was built with
    problem: str | None = None  # why it does not load
    absent: bool = False  # it does not exist, and need not


@dataclasses.dataclass(frozen=True)
class OperationState:
    """The implementation that an operation runs on one platform."""

    name: str
    platform: str  # "cpu", "cuda"
    runs: str  # file name of the library that serves it, or "reference"
    why: str = ""  # the reason for the reference, or what stands in the way
    problem: bool = False  # using the operation there is an error


@dataclasses.dataclass(frozen=True)
class EnvironmentReport:
    """The running environment."""

    versions: dict[str, str]  # of Python and the packages that matter
    runtime: str | None  # FFI version of the running jaxlib
    plugins: dict[str, str]  # JAX plugin -> version
    devices: dict[str, int]  # platform -> number of devices
    libraries: tuple[LibraryState, ...]  # of the kit and of the operations
    operations: tuple[OperationState, ...]  # per platform
    # Title -> what a package built on the kit says of itself, by name.
    sections: dict[str, dict[str, str]]
    switched: str  # what XLA_FFI_KIT_REFERENCE says
    # Issue -> what the running jaxlib does wrong itself; None: it never ran.
    jaxlib_faults: dict[str, str] | None

    @property
    def loads(self) -> bool:
        """Whether nothing stands in the way of a library or operation."""
        return not any(library.problem for library in self.libraries) and (
            not any(operation.problem for operation in self.operations)
        )


def runtime() -> Runtime:
    """The running jaxlib."""
    return Runtime(jaxlib.__version__, registration.runtime_api_version())


def examine(
    operations: Sequence[FfiOp[Result]] | None = None,
) -> EnvironmentReport:
    """Looks at the environment; starts JAX's backends.

    Args:
      operations: the operations to report on. Default: all of the process.
    """
    ours = runtime()
    devices = _devices()
    if operations is None:
        operations = ffi_op.operations()
    specs = [op.spec for op in operations]
    return EnvironmentReport(
        versions=_versions(),
        runtime=ours.api_version and ".".join(map(str, ours.api_version)),
        plugins=_plugins(),
        devices=devices,
        libraries=tuple(
            _library(library, ours) for library in _libraries(specs)
        ),
        operations=tuple(
            _operation(op, name, devices)
            for op in specs
            for name in sorted(op.handlers)
        ),
        sections=_sections(),
        switched=os.environ.get(reference_switch.ENVIRONMENT_VARIABLE, ""),
        jaxlib_faults={
            fault.issue: fault.what
            for fault in known_faults.faults_of(jaxlib.__version__)
        }
        if jaxlib.__version__ in known_faults.RAN
        else None,
    )


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("jax", "jaxlib", "numpy", "xla_ffi_kit"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if name != "xla_ffi_kit":  # under Bazel it is not installed
                found[name] = "not installed"
    return found


def _sections() -> dict[str, dict[str, str]]:
    """Returns the sections of packages with entry points `xla_ffi_kit.doctor`.

    An entry point is a function without arguments that returns a section's
    lines, name -> state.
    """
    found = importlib.metadata.entry_points(group="xla_ffi_kit.doctor")
    return {e.name: e.load()() for e in sorted(found, key=lambda e: e.name)}


def _plugins() -> dict[str, str]:
    entries = importlib.metadata.entry_points(group="jax_plugins")
    return {
        e.name: e.dist.version if e.dist else "unknown version" for e in entries
    }


def _devices() -> dict[str, int]:
    """Platform -> number of this process's devices."""
    counts = {}
    for name in ("cpu", "cuda", "rocm", "tpu"):
        try:
            counts[name] = len(jax.local_devices(backend=name))
        except RuntimeError:
            continue  # no such backend here
    return counts


def _libraries(operations: Sequence[OpSpec]) -> Iterator[HandlerLibrary]:
    seen = set()
    for library in (
        *KIT_LIBRARIES,
        *(lib for op in operations for lib in op.libraries),
    ):
        if library.path not in seen:
            seen.add(library.path)
            yield library


def _library(library: HandlerLibrary, ours: Runtime) -> LibraryState:
    path = library.path
    if library.is_file and library.optional and not library.exists:
        return LibraryState(path, absent=True)
    if not library.is_file:
        handlers = library.handlers.values()
        major, minor = max(h.metadata().api_version for h in handlers)
        platforms = tuple(library.platforms())
        return LibraryState(path, platforms, len(handlers), f"{major}.{minor}")
    try:
        report = _library_report.examine(path, ours)
    except _library_report.NotAHandlerLibraryError as error:
        return LibraryState(path, problem=str(error))
    return LibraryState(
        path,
        tuple(sorted({h.platform for h in report.handlers})),
        len(report.handlers),
        max((h.api_version or "" for h in report.handlers), default=None),
        next((h.problem for h in report.handlers if h.problem), None),
    )


def _operation(
    op: OpSpec, platform_name: str, devices: dict[str, int]
) -> OperationState:
    def state(
        runs: str, why: str = "", problem: bool = False
    ) -> OperationState:
        return OperationState(op.name, platform_name, runs, why, problem)

    if reference_switch.runs_reference(op):
        return state("reference", "switched to it")
    otherwise = "reference" if op.reference else "nothing: an error"
    handler = op.handlers[platform_name]
    if isinstance(handler, DeviceKernel):
        return state(handler.runs, handler.target)
    if not isinstance(handler, str):
        return state("other operations")
    target = handler
    if not handler_library.serves(op.libraries, platform_name):
        if op.if_registered and not registration.is_registered(
            target, platform_name
        ):
            return state(otherwise, f"no handler {target} is registered")
        return state("a handler that the program registers")
    try:
        library = handler_library.find(op.libraries, platform_name, target)
    except HandlerLibraryError as error:
        return state("error", str(error), True)
    if library is None:
        return state(otherwise, f"no library for {platform_name}")
    why = "" if platform_name in devices else f"no {platform_name} device"
    return state(os.path.basename(library.path), why)
