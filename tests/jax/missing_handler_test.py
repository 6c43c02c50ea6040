"""What XLA says if it has no handler, as docs/errors.md quotes it."""

import ctypes
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

PAGE = pathlib.Path(__file__).absolute().parents[2] / "docs" / "errors.md"
NEWER = 99  # than any XLA's FFI

# A handler in C: it answers a question for its version, and runs nothing.
_Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))


def handler(minor):
    """A handler of FFI version 0.`minor`."""

    @_Handler
    def answer(frame):
        if extension := frame[1]:
            metadata = ctypes.cast(
                extension + 24, ctypes.POINTER(ctypes.c_void_p)
            )[0]
            major_minor = ctypes.cast(
                metadata + 24, ctypes.POINTER(ctypes.c_int)
            )
            major_minor[0], major_minor[1] = 0, minor

    return answer


_registered = []  # XLA keeps the functions' addresses for ever


def register(name, minor=1):
    jax.devices()  # or XLA registers it, and refuses it, when it starts
    _registered.append(handler(minor))
    capsule = jax.ffi.pycapsule(_registered[-1])
    jax.ffi.register_ffi_target(name, capsule, platform="cpu")


def newer_headers():
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        register("missing.newer_headers", NEWER)
    said = re.sub(r"0\.\d+", "0.N", str(caught.value))
    quoted = (
        "the handler's API version (0.N) is incompatible with the framework's "
        "API version (0.N)"
    )
    assert quoted in said
    assert quoted in re.sub(r"0\.\d+", "0.N", page())


def typo():
    register("missing.mistyped")


def not_loaded():
    pass


def page():
    return " ".join(PAGE.read_text().split())


def call_of(name):
    result = jax.ShapeDtypeStruct((3,), np.float32)
    return jax.jit(lambda x: jax.ffi.ffi_call(name, result)(x))


def exported(name):
    """Calls it as a program that another process exported."""
    allowed = [export.DisabledSafetyCheck.custom_call(name)]
    x = jnp.ones(3)
    program = export.export(call_of(name), disabled_checks=allowed)(x)
    return export.deserialize(program.serialize()).call


def message(call):
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(call(jnp.ones(3)))
    return str(caught.value)


CAUSES = (newer_headers, typo, not_loaded)


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.__name__)
def test_the_message_of_the_page(cause):
    cause()
    name = f"missing.{cause.__name__}"
    quoted = "No FFI handler registered for NAME on a platform Host"
    assert f"`{quoted}`" in page()
    assert quoted.replace("NAME", name) in message(call_of(name))


def test_the_message_of_an_exported_program():
    said = message(exported("missing.exported"))
    assert "No FFI handler registered for missing.exported on a pla" in said
