"""What releases of jaxlib do wrong by themselves.

    python known_faults_test.py

says which faults the running release has.
"""

import os
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from jax import lax

from xla_ffi_kit.doctor import _environment, _text
from xla_ffi_kit.doctor.known_faults import FAULTS, RAN

# --- A reproducer for each fault: whether it shows ----------------------------


def vmapped_products():
    index = np.arange(32_769, dtype=np.float32)
    x = np.stack([index, 0 * index, 0 * index], 1)

    def norm(row):
        return jnp.sum((jnp.eye(3, dtype=row.dtype) @ row) ** 2)

    return not np.array_equal(jax.jit(jax.vmap(norm))(x), index**2)


def writes_in_a_loop():
    """A scan that keeps its results against one that does not.

    It takes twice the time or so, and 8,000 times where each step copies all.
    """

    def seconds(keeps):
        @jax.jit
        def run(x):
            def step(x, _):
                x = x * 0.5 + 1
                return x, x if keeps else None

            return lax.scan(step, x, None, length=20_000)

        jax.block_until_ready(run(1.0))
        times = []
        for _ in range(3):
            start = time.perf_counter()
            jax.block_until_ready(run(2.0))
            times.append(time.perf_counter() - start)
        return min(times)

    return seconds(True) > 200 * seconds(False)


def shifted_slice():
    x = np.arange(128, dtype=np.int32).reshape(8, 16)

    @jax.jit
    def shift(x):
        base = x + 1
        return base.at[1:].set(base[:-1]).reshape(1, 8, 16)

    want = np.concatenate([x[:1], x[:-1]]) + 1
    return not np.array_equal(shift(x)[0], want)


def dilated_base():
    x = np.arange(64 * 128, dtype=np.float32).reshape(64, 128)

    @jax.jit
    def pool(x):
        return lax.reduce_window(
            x,
            -jnp.inf,
            lax.max,
            (2, 1),
            (2, 1),
            ((0, 0), (0, 0)),
            base_dilation=(1, 2),
        )

    want = np.full((32, 255), -np.inf, np.float32)
    want[:, ::2] = x[1::2]
    return not np.array_equal(pool(x), want)


def negative_pad():
    @jax.jit
    def f(x):
        cut = lax.pad(x, jnp.int32(0), [(0, 0, 1), (-1, 0, 0)])
        padding = ((0, 0), (1, 0))
        return lax.reduce_window(
            cut, jnp.int32(0), lax.add, (1, 2), (1, 1), padding
        )

    return f(np.array([[669, -763]], np.int32)).tolist() != [[-763]]


def angle_of_zeros():
    x = np.arange(1, 5, dtype=np.int32)
    angle = jax.jit(lambda x: jnp.angle(jnp.logical_xor(x, x)))(x)
    return bool(jnp.isnan(angle).any())


# A busy machine may take long, but only threads that wait for each other take
# no time of the processor. On two cores, XLA has two threads.
SOLVES = """
import os, threading, time
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
import jax, jax.numpy as jnp

@jax.jit
def solves(x, b):
    return [jnp.linalg.solve(x + i * jnp.eye(8), b) for i in range(8)]

x = jnp.broadcast_to(2 * jnp.eye(8), (5_000, 8, 8))
b = jnp.ones((5_000, 8, 1))

def run():
    for _ in range(3):
        jax.block_until_ready(solves(x, b))

thread = threading.Thread(target=run, daemon=True)
thread.start()
while thread.is_alive():
    before = time.process_time()
    thread.join(3)
    if thread.is_alive() and time.process_time() - before < 0.01:
        print("hangs", flush=True)
        os._exit(0)
print("ends")
"""


def batched_solves():
    names = ("XLA_FLAGS", "XLA_FFI_ACCELERATE")
    done = subprocess.run(
        [sys.executable, "-c", SOLVES],
        env={k: v for k, v in os.environ.items() if k not in names}
        | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    said = done.stdout.split()[-1]
    assert said in ("hangs", "ends")
    return said == "hangs"


SHOWS = {
    "jax#39103": vmapped_products,
    "jax#36927": batched_solves,
    "jax#40101": writes_in_a_loop,
    "xla#49176": shifted_slice,
    "xla#48714": dilated_base,
    "xla#48715": negative_pad,
    "jax#38681": angle_of_zeros,
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.issue)
def test_the_table_is_right_of_this_release(fault):
    if jaxlib.__version__ not in RAN:
        pytest.skip(f"jaxlib {jaxlib.__version__} is not in the table")
    shows = SHOWS[fault.issue]()
    if jaxlib.__version__ not in fault.releases:
        assert not shows, f"jaxlib {jaxlib.__version__}: {fault.issue} too"
    elif not shows:  # it may depend on what the processor can
        pytest.skip(f"{fault.issue} does not show on this machine")


def test_every_fault_has_its_reproducer_and_its_releases():
    assert SHOWS.keys() == {fault.issue for fault in FAULTS}
    for fault in FAULTS:
        assert fault.releases and set(fault.releases) <= set(RAN)


def test_the_doctor_lists_them():
    report = _environment.examine([])
    if jaxlib.__version__ in RAN:
        assert "xla#49176" in report["jaxlib_faults"]
        assert "xla#49176  overwrites what" in _text.environment(report)
    else:
        assert "has not been tried" in _text.environment(report)


if __name__ == "__main__":
    print(f"jaxlib {jaxlib.__version__}")
    for issue, shows in SHOWS.items():
        print(f"  {issue}: {'shows' if shows() else 'does not show'}")
