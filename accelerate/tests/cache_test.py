"""JAX's persistent cache, serialized executables and exports, by setting."""

import os
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_accelerate import disabled, enabled

COMPILED = """
import contextlib, sys
import jax, jax.numpy as jnp, numpy as np
hits = []
jax.monitoring.register_event_listener(
    lambda event, **_: "cache_hits" in event and hits.append(event))
if sys.argv[1] == "on":
    import xla_ffi_accelerate
    xla_ffi_accelerate.enable("sort")
f = jax.jit(lambda x: jnp.sort(x) * 3)
x = np.arange(90, dtype=np.float32)[::-1]
hits.clear()
compiled = f.lower(x).compile()
assert np.asarray(compiled(x))[1] == 3
print(len(hits), "xla_ffi_accelerate.sort" in compiled.as_text())
"""
CACHE = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
X = np.arange(90, dtype=np.float32)[::-1].copy()


def run(code, *arguments, fails=False, **variables):
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            **variables,
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
    )
    assert bool(done.returncode) == fails, done.stderr
    return done.stderr if fails else done.stdout


def test_the_persistent_cache_never_mixes_settings(tmp_path):
    variables = {**CACHE, "JAX_COMPILATION_CACHE_DIR": str(tmp_path)}
    said = [
        run(COMPILED, switch, **variables).split()
        for switch in ("on", "off", "on", "off")
    ]
    assert said == [
        ["0", "True"],
        ["0", "False"],
        ["1", "True"],
        ["1", "False"],
    ]


LOADED = """
import pickle, sys
import jax, numpy as np
from jax.experimental import serialize_executable
jax.devices()
if sys.argv[2] == "with":
    import xla_ffi_accelerate
with open(sys.argv[1], "rb") as file:
    compiled = serialize_executable.deserialize_and_load(*pickle.load(file))
print(compiled(np.arange(90, dtype=np.float32)[::-1].copy())[0])
"""


def test_an_executable_says_what_is_missing(tmp_path):
    serialized = pytest.importorskip("jax.experimental.serialize_executable")
    with enabled("sort"):
        compiled = jax.jit(jnp.sort).lower(X).compile()
    file = tmp_path / "executable"
    file.write_bytes(pickle.dumps(serialized.serialize(compiled)))
    assert run(LOADED, str(file), "with").split() == ["0.0"]
    error = run(LOADED, str(file), "without", fails=True)
    assert "xla_ffi_accelerate.sort" in error


RAN = """
import sys
import jax, numpy as np
jax.devices()
if sys.argv[2] == "with":
    import xla_ffi_accelerate
with open(sys.argv[1], "rb") as file:
    exported = jax.export.deserialize(bytearray(file.read()))
print(exported.call(np.arange(90, dtype=np.float32)[::-1].copy())[0][1])
"""


def both(x):
    return jnp.sort(x), jax.lax.top_k(x.astype(int), 80)[0]


def export(checks=None):
    checks = xla_ffi_kit.export_checks() if checks is None else checks
    # A function of its own: what is exported is not what is kept.
    f = jax.jit(lambda x: both(x))
    return jax.export.export(f, disabled_checks=checks)(X)


def test_what_is_exported_by_name(tmp_path):
    file = tmp_path / "exported"
    with enabled(), enabled("sort", export=True):
        exported = export()
        file.write_bytes(exported.serialize())
        with pytest.raises(ValueError, match="xla_ffi_accelerate.sort"):
            export(checks=())
        with disabled(), enabled("sort", "top_k"):
            assert "xla_ffi_accelerate" not in export().mlir_module()
        with enabled("top_k", export=True):
            assert "xla_ffi_accelerate.top_k" in export().mlir_module()
    assert "xla_ffi_accelerate.sort" in exported.mlir_module()
    assert "xla_ffi_accelerate.top_k" not in exported.mlir_module()
    assert run(RAN, str(file), "with").split() == ["1.0"]
    error = run(RAN, str(file), "without", fails=True)
    assert "xla_ffi_accelerate.sort" in error


@pytest.mark.parametrize("checks", [(), "all"])
def test_what_is_exported_is_jax_own(checks):
    checks = xla_ffi_kit.export_checks() if checks else ()
    with enabled():
        exported = jax.export.export(jax.jit(jnp.sort), disabled_checks=checks)
        module = exported(X).mlir_module()
        # The other way about: a loaded program is not lowered anew.
        again = jax.export.deserialize(exported(X).serialize())
        np.testing.assert_array_equal(again.call(X), np.sort(X))
    assert "xla_ffi_accelerate" not in module
