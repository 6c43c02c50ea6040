"""Two processes over jax.distributed on loopback, one mesh."""

import os
import socket
import subprocess
import sys

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
