"""Releases of jaxlib that compute wrongly, very slowly or never, on CPUs.

The kit causes none of these faults, but they matter if you check a kernel
against JAX. `tests/jax/known_faults_test.py` reproduces each entry on the
releases that it names, and on no others of `RAN`.
"""

from __future__ import annotations

import dataclasses

# The releases of jaxlib that ran, oldest first.
RAN = (
    *("0.8.1", "0.9.2", "0.10.0", "0.10.1", "0.10.2"),
    *("0.11.0", "0.11.1", "0.11.2", "0.12.0", "0.12.0.1"),
)


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault of some releases on CPUs."""

    issue: str  # where it was reported: jax-ml/jax, openxla/xla
    what: str  # goes on after "it"
    releases: tuple[str, ...]  # of those in `RAN`, all that have it


FAULTS = (
    Fault(
        "jax#39103",
        "computes the last row of a vmapped matrix-vector product with a "
        "reduction wrongly, of 32,769 rows of float32, say",
        ("0.10.2",),
    ),
    # The report is of the time that it takes. Each solve keeps a thread of the
    # pool, and waits for parts of its batch that queue for the same threads.
    Fault(
        "jax#36927",
        "hangs where a program has several batched solves, with as many "
        "threads as solves that run at once, on two cores, say",
        RAN[RAN.index("0.10.0") : RAN.index("0.11.1")],
    ),
    Fault(
        "jax#40101",
        "copies the whole array for each small slice that a loop writes, the "
        "results of a scan too: the time is quadratic in its length",
        ("0.11.1",),
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
