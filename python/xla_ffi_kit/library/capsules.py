"""Handlers in the PyCapsules of extension modules."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import TypeAlias

from xla_ffi_kit.library.handler_library import (
    STAGES,
    Handler,
    HandlerLibrary,
)

# Target -> a capsule, or stage -> capsule, as `jax.ffi.register_ffi_target`
# takes them.
Registrations: TypeAlias = Mapping[str, object]

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


class CapsuleLibrary(HandlerLibrary):
    """The handlers that an extension module offers as capsules.

    Use it wherever a `HandlerLibrary` is expected. The module does not have to
    be built with the kit.

    Example:
      library = CapsuleLibrary(jax_finufft.jax_finufft_cpu.registrations())

    Args:
      registrations: target -> capsule, or target -> mapping of stages
        ("instantiate", "prepare", "initialize", "execute") to capsules. Modules
        return such mappings for `jax.ffi.register_ffi_target`.
      platform: JAX's name of the handlers' platform.
      name: the name of the module, for errors.
    """

    def __init__(
        self,
        registrations: Registrations,
        platform: str = "cpu",
        *,
        name: str = "an extension module",
    ) -> None:
        super().__init__(name, platform)
        if not isinstance(registrations, Mapping) or not registrations:
            raise TypeError(
                "CapsuleLibrary: argument registrations: expected a mapping of "
                f"targets to capsules, got {registrations!r}"
            )
        self.handlers = {
            target: Handler(target, platform, _stages(target, capsules))
            for target, capsules in registrations.items()
        }
        # Distinguishes it from other modules, because two may offer one target.
        first = next(iter(self.handlers.values())).stages["execute"]
        self.path = f"{name} at {first:#x}"
        self.types = ()
        self._kept = registrations  # a capsule may free what it points to

    @property
    def exists(self) -> bool:
        """True, because the handlers are in this process."""
        return True

    @property
    def parallel_for(self) -> int | None:
        """None, because a module has no parallel loop."""
        return None


def _stages(target: str, given: object) -> dict[str, int]:
    capsules = given if isinstance(given, Mapping) else {"execute": given}
    if not {"execute"} <= capsules.keys() <= set(STAGES):
        raise TypeError(
            f"CapsuleLibrary: target {target!r}: expected stages of "
            f"{', '.join(STAGES)}, execute among them, got {sorted(capsules)}"
        )
    try:
        return {stage: address_of(c) for stage, c in capsules.items()}
    except TypeError as error:
        raise TypeError(f"CapsuleLibrary: target {target!r}: {error}") from None
