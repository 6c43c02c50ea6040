"""Threads and processes that use the kit: forked, spawned, on one mesh."""

import os
import socket
import subprocess
import sys
import threading

from common import run_python

from xla_ffi_kit.library import registration


def test_first_use_from_many_threads():
    result = run_python(
        "import threading, numpy as np, xla_ffi_kit\n"
        "xla_ffi_kit.library.registration._handlers.clear()\n"
        "start, wrong = threading.Barrier(8), []\n"
        "def work(i):\n"
        "    start.wait()\n"
        "    y = xla_ffi_kit.relu(np.arange(i + 1.0) - 2)\n"
        "    z = xla_ffi_kit.rms_norm(np.ones(i + 1))\n"
        "    if y.shape != z.shape: wrong.append(i)\n"
        "ts = [threading.Thread(target=work, args=(i,)) for i in range(8)]\n"
        "[t.start() for t in ts]; [t.join() for t in ts]\n"
        "assert not wrong\n"
        "assert len(xla_ffi_kit.library.registration._handlers) == 2\n"
    )
    assert result.returncode == 0, result.stderr


def test_fork_while_another_thread_registers():
    taken, release = threading.Event(), threading.Event()

    def hold():
        with registration._lock:
            taken.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    child = os.fork()
    if child == 0:  # only checks that the lock is free here
        free = registration._lock.acquire(blocking=False)
        os._exit(0 if free else 1)
    release.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_forked_process_that_uses_it_first():
    result = run_python(
        "import os, numpy as np, xla_ffi_kit\n"
        "child = os.fork()\n"
        "y = xla_ffi_kit.relu(np.array([-1.0, 2.0]))\n"
        "assert list(y) == [0, 2], y\n"
        "if child == 0: os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        # A library that others close stays usable.
        "handle = xla_ffi_kit.ops.LIBRARIES[0]._library._handle\n"
        "import _ctypes\n"
        "for _ in range(3): _ctypes.dlclose(handle)\n"
        "assert xla_ffi_kit.relu(np.float32(-1)) == 0\n"
        "assert xla_ffi_kit.relu(np.zeros(7) - 1).max() == 0\n"
    )
    assert result.returncode == 0, result.stderr


def test_spawned_process():
    result = run_python(
        "import multiprocessing, numpy as np, xla_ffi_kit\n"
        "if __name__ == '__main__':\n"
        "    xla_ffi_kit.relu(np.float32(1))\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    with context.Pool(1) as pool:\n"
        "        y = pool.apply(xla_ffi_kit.relu, (np.float32(-1),))\n"
        "    assert y == 0\n"
    )
    assert result.returncode == 0, result.stderr


# --- One mesh over jax.distributed on loopback --------------------------------

CODE = """
import sys
import jax, jax.numpy as jnp, numpy as np
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
import xla_ffi_kit

mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))
x = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
w = np.random.default_rng(1).normal(size=16).astype(np.float32)

def loss(x, w):
    return jnp.sum(xla_ffi_kit.rms_norm(x, w) ** 3)

step = jax.jit(jax.value_and_grad(loss, (0, 1)))
with jax.default_device(jax.local_devices()[0]):
    want = jax.tree.map(np.asarray, step(x, w))

def put(value, spec):
    sharding = NamedSharding(mesh, spec)
    return jax.make_array_from_callback(
        value.shape, sharding, lambda index: value[index])

xs, ws = put(x, P("d")), put(w, P())
text = step.lower(xs, ws).compile().as_text()
assert "all-gather" not in text and "all-reduce" in text
value, (dx, dw) = step(xs, ws)
np.testing.assert_allclose(value, want[0], rtol=1e-5)
np.testing.assert_allclose(dw, want[1][1], rtol=1e-4, atol=1e-4)
for shard in dx.addressable_shards:
    np.testing.assert_allclose(
        shard.data, want[1][0][shard.index], rtol=1e-4, atol=1e-4)
print("done", jax.process_count(), len(dx.addressable_shards))
"""


def test_two_processes():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", "")
        + " --xla_force_host_platform_device_count=2",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CODE, address, str(i)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]
    try:
        for process in processes:
            out, error = process.communicate(timeout=240)
            assert out.splitlines()[-1:] == ["done 2 2"], error
    finally:
        for process in processes:
            process.kill()
