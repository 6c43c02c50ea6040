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


def problem(
    built: Version, jaxlib: str, spoken: Version | None, *, state: bool
) -> str | None:
    """Returns why a jaxlib does not take a handler, or None.

    Args:
      built: the FFI version of the headers it was built with.
      jaxlib: the release of jaxlib.
      spoken: the FFI version of that, if it is known.
      state: whether the handler keeps state.
    """
    if state and built < STATE_MOVED and jaxlib in NO_OLD_STATE:
        return (
            f"keeps state and is built for XLA FFI {dots(built)}; jaxlib "
            f"{jaxlib} crashes on such handlers; use jaxlib 0.9.0 or older, or "
            "0.10.0 or newer"
        )
    if spoken is None or OLDEST <= built <= spoken:
        return None
    advice = "rebuild the library with newer XLA headers"
    if built > spoken:
        advice = "update jaxlib, or build the library with older XLA headers"
    return (
        f"is built for XLA FFI {dots(built)}, but jaxlib {jaxlib} takes "
        f"{dots(OLDEST)} to {dots(spoken)}; {advice}"
    )


def dots(version: Version) -> str:
    """Returns a version as it is written: "0.3"."""
    return ".".join(map(str, version))


def loads_in(built: Version, *, state: bool = False) -> str:
    """Names the jaxlib releases that load a handler; see `problem`."""
    if built < OLDEST:
        return "none: XLA refuses FFI 0.0"
    newest = max(FIRST_JAXLIB)
    if built > newest:
        return f"newer than {FIRST_JAXLIB[newest]}"
    first = min(v for v in FIRST_JAXLIB if v >= built)
    text = f">= {FIRST_JAXLIB[first]}"
    if state and built < STATE_MOVED:
        text += f" except {', '.join(NO_OLD_STATE)}"
    return text
