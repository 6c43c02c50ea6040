"""Handlers from an extension module: `pybind11_module` of xla_ffi_library().

The FFI tutorial's pattern. The same handlers as in the tests beside this one,
under JAX's own functions alone; the kit's Python package is not used.
"""

import gc

import ffi_examples_extension as extension
import jax
import numpy as np

# A stateful handler that is registered before the backend has started takes it
# down on some releases.
jax.devices()
for _name, _type in extension.type_registrations().items():
    jax.ffi.register_ffi_type(_name, _type, platform="cpu")
for _name, _stages in extension.registrations().items():
    jax.ffi.register_ffi_target(_name, _stages, platform="cpu")


def test_stateless_handler():
    call = jax.ffi.ffi_call(
        "examples.scale", jax.ShapeDtypeStruct((3,), np.float32)
    )
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(call(x, np.float32(2)), 2 * x)


def test_stateful_handler():
    call = jax.ffi.ffi_call(
        "examples.counter",
        jax.ShapeDtypeStruct((), np.int32),
        has_side_effect=True,
    )
    count = jax.jit(lambda: call(start=np.int32(5)))
    assert [int(count()) for _ in range(3)] == [5, 6, 7]
    live = jax.jit(
        lambda: jax.ffi.ffi_call(
            "examples.live_counters",
            jax.ShapeDtypeStruct((), np.int32),
            has_side_effect=True,
        )()
    )
    assert live() == 1
    del count
    jax.clear_caches()
    gc.collect()
    assert live() == 0


def test_what_the_module_offers():
    assert extension.api_version() == (0, 2)
    stages = extension.registrations()["examples.stages"]
    assert list(stages) == ["instantiate", "prepare", "initialize", "execute"]
    assert list(extension.registrations()["examples.scale"]) == ["execute"]
    assert len(extension.type_registrations()) == 4
