"""Releases of jaxlib that compute wrongly, very slowly or never, on CPUs.

The kit causes none of these faults, but they matter if you check a kernel
against JAX. `tests/jax/known_faults_test.py` reproduces each entry on the
releases that it names, and on no others of `RAN`.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import warnings

import jaxlib

ENVIRONMENT_VARIABLE = "XLA_FFI_KIT_RELEASE_WARNING"

# The releases of jaxlib that ran, oldest first.
RAN = (
    *("0.8.1", "0.9.2", "0.10.0", "0.10.1", "0.10.2"),
    *("0.11.0", "0.11.1", "0.11.2", "0.12.0", "0.12.0.1"),
)


class KnownBadReleaseWarning(UserWarning):
    """This release of jaxlib has a known fault on CPUs."""


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault of some releases on CPUs."""

    issue: str  # where it was reported: jax-ml/jax, openxla/xla
    what: str  # goes on after "it"
    releases: tuple[str, ...]  # of those in `RAN`, all that have it
    # Whether ordinary programs meet it, and a release near by is without.
    warns: bool = False


FAULTS = (
    Fault(
        "jax#39103",
        "computes the last row of a vmapped matrix-vector product with a "
        "reduction wrongly, of 32,769 rows of float32, say",
        ("0.10.2",),
        warns=True,
    ),
    # The report is of the time that it takes. Each solve keeps a thread of the
    # pool, and waits for parts of its batch that queue for the same threads.
    Fault(
        "jax#36927",
        "hangs where a program has several batched solves, with as many "
        "threads as solves that run at once, on two cores, say",
        RAN[RAN.index("0.10.0") : RAN.index("0.11.1")],
        warns=True,
    ),
    Fault(
        "jax#40101",
        "copies the whole array for each small slice that a loop writes, the "
        "results of a scan too: the time is quadratic in its length",
        ("0.11.1",),
        warns=True,
    ),
    Fault(
        "xla#49176",
        "overwrites what it has yet to read where an array's own slice, "
        "shifted, is written into it and the result is reshaped",
        RAN,
    ),
    Fault(
        "xla#48714",
        "ignores the base_dilation of a reduce_window along an axis whose "
        "window and stride are 1, in large arrays",
        RAN[RAN.index("0.10.2") :],
    ),
    Fault(
        "xla#48715",
        "adds a negative pad to the padding of the reduce_window after it",
        RAN[: RAN.index("0.12.0")],
    ),
    Fault(
        "jax#38681",
        "gives NaN for the angle of jnp.logical_xor(x, x)",
        RAN[: RAN.index("0.11.1")],
    ),
)


def faults_of(release: str) -> tuple[Fault, ...]:
    """Returns the known faults of a release of jaxlib."""
    return tuple(fault for fault in FAULTS if release in fault.releases)


def warning_of(release: str) -> str | None:
    """Returns the warning for programs on a release; None if there is none."""
    faults = [fault for fault in faults_of(release) if fault.warns]
    if not faults:
        return None
    said = "; it ".join(f"{fault.what} ({fault.issue})" for fault in faults)
    at = RAN.index(release)
    fine = [not any(f.warns for f in faults_of(other)) for other in RAN]
    near = [RAN[i] for i in range(at) if fine[i]][-1:]
    near += [RAN[i] for i in range(at, len(RAN)) if fine[i]][:1]
    return (
        f"jaxlib {release} has a known fault on CPUs, with or without "
        f"xla_ffi_kit: it {said}. Use jaxlib {' or '.join(near)}; "
        f"{ENVIRONMENT_VARIABLE}=0 silences this warning"
    )


_warned = threading.Lock()  # taken by the first who asks, and never released


def warn_once() -> None:
    """Warns once in a process if the running jaxlib has a known fault.

    It is called when a program starts to use a handler. It starts no backend.
    """
    if not _warned.acquire(blocking=False):
        return
    said = warning_of(jaxlib.__version__)
    if said and os.environ.get(ENVIRONMENT_VARIABLE) != "0":
        warnings.warn(said, KnownBadReleaseWarning, stacklevel=2)
