"""Maps FFI versions to the jaxlib releases that load their handlers.

XLA takes a handler if 0.1 <= the version of the headers it was built with <=
its own (`xla/ffi/ffi_registry.cc`). The versions of the releases are read from
the headers in their wheels, see docs/compatibility.md.
"""

from __future__ import annotations

Version = tuple[int, int]

# FFI version -> the first jaxlib release that speaks it, in ascending order.
FIRST_JAXLIB: dict[Version, str] = {
    (0, 1): "0.4.38",
    (0, 2): "0.8.1",
    (0, 3): "0.9.1",
    (0, 4): "0.11.1",
    (0, 5): "0.12.0.1",
}

OLDEST: Version = (0, 1)  # XLA refuses handlers of FFI 0.0 since 2024

# FFI 0.3 moved a field of the structs that set and get state, and only jaxlib
# 0.10.0 learnt to take the older ones too (ran: both releases end in SIGSEGV at
# the first call of a stateful handler built for 0.2; 0.8.1 and 0.10.0 do not).
STATE_MOVED: Version = (0, 3)
NO_OLD_STATE = ("0.9.1", "0.9.2")


def crashes(built: Version, jaxlib: str) -> bool:
    """Whether a jaxlib release crashes on a CPU handler with state."""
    return built < STATE_MOVED and jaxlib in NO_OLD_STATE


def problem(
    built: Version, jaxlib: str | None, ours: Version | None, *, state: bool
) -> str | None:
    """Returns why a jaxlib does not load a handler, or None.

    Args:
      built: the FFI version of the headers it was built with.
      jaxlib: the release of jaxlib.
      ours: the FFI version of that, if it is known.
      state: whether it is a CPU handler with state.
    """
    if built < OLDEST:
        return "built for FFI 0.0, which XLA refuses"
    if ours and built > ours:
        return (
            f"built for FFI {dots(built)}, jaxlib {jaxlib} speaks "
            f"{dots(ours)}: update jaxlib, or build with older headers"
        )
    if state and crashes(built, jaxlib or ""):
        return f"jaxlib {jaxlib} crashes on state of FFI < 0.3"
    return None


def dots(version: Version) -> str:
    """Returns a version as it is written: "0.3"."""
    return ".".join(map(str, version))


def loads_in(built: Version, *, old_state: bool = False) -> str:
    """Names the jaxlib releases that load a handler.

    Args:
      built: the FFI version of the headers it was built with.
      old_state: whether it is a CPU handler with state; the releases in
        `NO_OLD_STATE` crash on those built for FFI 0.2 or older.
    """
    if built < OLDEST:
        return "none: XLA refuses FFI 0.0"
    newest = max(FIRST_JAXLIB)
    if built > newest:
        return f"newer than {FIRST_JAXLIB[newest]}"
    first = min(v for v in FIRST_JAXLIB if v >= built)
    text = f">= {FIRST_JAXLIB[first]}"
    if old_state and built < STATE_MOVED:
        text += f" except {', '.join(NO_OLD_STATE)}"
    return text
