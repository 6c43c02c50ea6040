"""What a library offers: the rows of a handler table, or capsules."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from xla_ffi_kit.library import c_api
from xla_ffi_kit.library.signature import Signature, read

# XLA's name of a platform in the handler table -> JAX's name of it.
PLATFORMS = {"Host": "cpu", "CUDA": "cuda", "ROCM": "rocm"}

STAGES = ("instantiate", "prepare", "initialize", "execute")

# Target -> a capsule, or stage -> capsule, as `jax.ffi.register_ffi_target`
# takes them.
Registrations: TypeAlias = Mapping[str, object]


@dataclasses.dataclass(frozen=True)
class Handler:
    """A custom call target of a library on one platform."""

    name: str  # e.g. "xla_ffi_kit.rms_norm"
    platform: str  # JAX's name of it: "cpu", "cuda"
    stages: dict[str, int]  # stage, "execute" among them -> function's address
    signature_at: int | None = None  # the address of its signature

    def metadata(self) -> c_api.Metadata:
        """The FFI version and traits that the handler was compiled with."""
        return c_api.read_metadata(self.stages["execute"])

    def signature(self) -> Signature | None:
        """The handler's signature; None if its library does not state it."""
        return read(self.signature_at) if self.signature_at else None


@dataclasses.dataclass(frozen=True)
class StateType:
    """A user-defined type that handlers of a library keep as state."""

    name: str
    platform: str
    type_id: int
    type_info: int


def handlers_in(table: c_api.HandlerTable) -> Iterator[Handler]:
    """The handlers of all platforms."""
    for i in range(table.num_handlers):
        # The library's own stride: its rows may be longer than this reader's,
        # and shorter.
        at = table.handlers + i * table.handler_size
        entry = c_api.HandlerEntry.from_address(at)
        stages = {s: getattr(entry, s) for s in STAGES if getattr(entry, s)}
        has_signature = table.handler_size >= ctypes.sizeof(entry)
        yield Handler(
            entry.name.decode(),
            _jax_platform(entry),
            stages,
            entry.signature if has_signature else None,
        )


def types_in(table: c_api.HandlerTable) -> Iterator[StateType]:
    """The state types of all platforms."""
    for i in range(table.num_types):
        entry = c_api.TypeEntry.from_address(table.types + i * table.type_size)
        name, platform = entry.name.decode(), _jax_platform(entry)
        yield StateType(name, platform, entry.type_id, entry.type_info)


def _jax_platform(entry: c_api.HandlerEntry | c_api.TypeEntry) -> str:
    name: str = entry.platform.decode()
    return PLATFORMS.get(name, name.lower())


def of_capsules(registrations: Registrations, platform: str) -> list[Handler]:
    """The handlers that an extension module offers."""
    where = "HandlerLibrary.from_capsules"
    if platform not in PLATFORMS.values():
        raise ValueError(
            f"{where}: argument platform: expected "
            f"{', '.join(PLATFORMS.values())}, got {platform!r}"
        )
    if not isinstance(registrations, Mapping) or not registrations:
        raise TypeError(
            f"{where}: argument registrations: expected a mapping of targets "
            f"to capsules, got {registrations!r}"
        )
    return [
        Handler(target, platform, _stages(f"{where}: target {target!r}", value))
        for target, value in registrations.items()
    ]


def _stages(where: str, value: object) -> dict[str, int]:
    capsules = value if isinstance(value, Mapping) else {"execute": value}
    if not {"execute"} <= capsules.keys() <= set(STAGES):
        raise TypeError(
            f"{where}: expected stages of {', '.join(STAGES)}, execute among "
            f"them, got {sorted(capsules)}"
        )
    return _addresses(where, capsules)


def types_of_capsules(
    registrations: Registrations, platform: str
) -> tuple[StateType, ...]:
    """The state types that an extension module offers."""
    types = []
    for name, value in registrations.items():
        where = f"HandlerLibrary.from_capsules: type {name!r}"
        capsules = value if isinstance(value, Mapping) else {"type_id": value}
        if not {"type_id"} <= capsules.keys() <= {"type_id", "type_info"}:
            raise TypeError(
                f"{where}: expected type_id and type_info, or the first, got "
                f"{sorted(capsules)}"
            )
        at = _addresses(where, capsules)
        info = at.get("type_info", 0)
        types.append(StateType(name, platform, at["type_id"], info))
    return tuple(types)


def _addresses(where: str, capsules: Mapping[str, object]) -> dict[str, int]:
    try:
        return {what: address_of(c) for what, c in capsules.items()}
    except TypeError as error:
        raise TypeError(f"{where}: {error}") from None


_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


def address_of(capsule: object) -> int:
    """Returns the address in a capsule; TypeError for anything else."""
    if type(capsule).__name__ != "PyCapsule":
        raise TypeError(f"expected a PyCapsule, got {capsule!r}")
    address: int = _pointer(capsule, _name(capsule))
    return address
