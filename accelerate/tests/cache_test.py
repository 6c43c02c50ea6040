"""JAX's persistent cache, serialized executables and exports, by setting."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import python

import xla_ffi_kit
from xla_ffi_accelerate import disabled, enabled

COMPILED = """
import jax, jax.numpy as jnp, numpy as np
import xla_ffi_accelerate
hits = []
jax.monitoring.register_event_listener(
    lambda event, **_: "cache_hits" in event and hits.append(event))
x = np.arange(90, dtype=np.float32)[::-1]
for names in ["sort"], []:
    hits.clear()
    with (xla_ffi_accelerate.enabled if names
          else xla_ffi_accelerate.disabled)(*names):
        compiled = jax.jit(lambda x: jnp.sort(x) * 3).lower(x).compile()
    assert np.asarray(compiled(x))[1] == 3
    print(len(hits), "xla_ffi_accelerate.sort" in compiled.as_text())
"""
CACHE = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
X = np.arange(90, dtype=np.float32)[::-1].copy()


def run(code, *arguments, **variables):
    return python("-c", code, *arguments, **variables).stdout


def test_the_persistent_cache_never_mixes_settings(tmp_path):
    variables = {**CACHE, "JAX_COMPILATION_CACHE_DIR": str(tmp_path)}
    first, second = (run(COMPILED, **variables).split() for _ in range(2))
    assert first == ["0", "True", "0", "False"]
    assert second == ["1", "True", "1", "False"]


LOADED = """
import pickle, sys
import jax, numpy as np
from jax.experimental import serialize_executable
jax.devices()
if sys.argv[1] == "with":
    import xla_ffi_accelerate
x = np.arange(90, dtype=np.float32)[::-1].copy()
executable, exported = (open(name, "rb").read() for name in sys.argv[2:])
def load():
    load = serialize_executable.deserialize_and_load
    return load(*pickle.loads(executable))(x)[1]
def call():
    return jax.export.deserialize(bytearray(exported)).call(x)[0][1]
for function in load, call:
    try:
        print(function())
    except Exception as error:
        print(str(error).splitlines())
"""


def both(x):
    return jnp.sort(x), jax.lax.top_k(x.astype(int), 80)[0]


def export(checks=None):
    checks = xla_ffi_kit.export_checks() if checks is None else checks
    # A function of its own: what is exported is not what is kept.
    f = jax.jit(lambda x: both(x))
    return jax.export.export(f, disabled_checks=checks)(X)


def test_what_is_loaded_and_exported_by_name(tmp_path):
    """Elsewhere it runs with the package, or says what is missing."""
    serialize = pytest.importorskip("jax.experimental.serialize_executable")
    executable, file = tmp_path / "executable", tmp_path / "exported"
    with enabled("sort"):
        compiled = jax.jit(jnp.sort).lower(X).compile()
    executable.write_bytes(pickle.dumps(serialize.serialize(compiled)))
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
    files = str(executable), str(file)
    assert run(LOADED, "with", *files).split() == ["1.0", "1.0"]
    errors = run(LOADED, "without", *files).splitlines()
    assert len(errors) == 2
    assert all("xla_ffi_accelerate.sort" in error for error in errors)


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


def test_a_function_for_several_platforms_is_exported_once():
    def nested(x):
        for _ in range(6):
            x = jax.jit(jnp.negative)(jax.jit(lambda x: x + 1)(x))
        return x

    def exported():
        f = jax.jit(lambda x: jax.jit(nested)(x))
        return jax.export.export(f, platforms=("cpu", "cuda"))(X).mlir_module()

    with disabled():
        want = exported()
    with enabled():
        assert exported().count("stablehlo.case") == want.count("case") == 0
