"""Uses installed wheels, without a GPU.

    installed.py kit FOLDER
    installed.py platforms FOLDER PLATFORM...
    installed.py accelerate FOLDER
    installed.py other_version

FOLDER is what the wheels are installed below.
"""

import importlib.metadata
import io
import sys
from contextlib import redirect_stdout

import jax
import jax.numpy as jnp
import numpy as np

import xla_ffi_kit
from xla_ffi_kit import doctor
from xla_ffi_kit.ops import relu
from xla_ffi_kit.testing import Case, check_op


def kit(folder):
    """The kit's operations are the wheel's, and compute."""
    assert xla_ffi_kit.__file__.startswith(folder), xla_ffi_kit.__file__
    assert importlib.metadata.version("xla_ffi_kit")
    library = xla_ffi_kit.ops.LIBRARIES[0]
    assert library.path.startswith(folder), library.path
    assert library.api_version == (0, 2)

    x = np.random.default_rng(0).normal(size=(64, 1000)).astype(np.float32)
    lowered = jax.jit(xla_ffi_kit.rms_norm).lower(x)
    assert "xla_ffi_kit.rms_norm" in lowered.as_text()
    expected = x / np.sqrt(np.mean(np.square(x), -1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(lowered.compile()(x), expected, rtol=1e-5)
    np.testing.assert_array_equal(xla_ffi_kit.relu(x), np.maximum(x, 0))
    np.testing.assert_array_equal(
        xla_ffi_kit.modular_add(jnp.arange(3), jnp.zeros(7, int)),
        np.arange(7) % 3,
    )

    # What a handler refuses is JAX's error, with the handler's sentence.
    two_results = jax.jit(
        lambda x: jax.ffi.ffi_call("xla_ffi_kit.relu", [x, x])(x)
    )
    try:
        jax.block_until_ready(two_results(x))
        raise SystemExit("a wrong call was not refused")
    except jax.errors.JaxRuntimeError as error:
        said = "xla_ffi_kit.relu: results: expected y, got 2"
        assert said in str(error), error

    check_op(relu, [Case("float32[2,3]")])


def platforms(folder, *expected):
    """It has the libraries of these platforms, and of no other."""
    libraries = [lib for lib in xla_ffi_kit.ops.LIBRARIES if lib.exists]
    found = [p for lib in libraries for p in lib.platforms("xla_ffi_kit.relu")]
    assert found == [*expected], f"expected {expected}, got {found}"
    for library, platform in zip(libraries, expected, strict=True):
        assert library.path.startswith(folder), library.path
        assert library.api_version == (0, 2)
        for handler in library.handlers.values():
            assert handler.metadata().api_version == (0, 2), handler
        traced = jax.jit(xla_ffi_kit.relu).trace(jnp.ones(8))
        lowered = traced.lower(lowering_platforms=(platform,))
        assert "@xla_ffi_kit.relu(" in lowered.as_text(), platform


def accelerate(folder):
    """Both wheels fit each other, and a large sort calls a handler."""
    import xla_ffi_accelerate

    assert xla_ffi_accelerate.__file__.startswith(folder)
    (needs,) = (
        line
        for line in importlib.metadata.requires("xla_ffi_accelerate")
        if line.startswith("xla_ffi_kit")
    )
    version = importlib.metadata.version("xla_ffi_kit")
    assert needs == f"xla_ffi_kit=={version}", needs
    (library,) = xla_ffi_accelerate.LIBRARIES
    assert library.path.startswith(folder), library.path
    assert library.api_version == (0, 2)

    # Threads of XLA's pool, and their condition variables, inside the library.
    big = np.random.default_rng(1).normal(size=1 << 20).astype(np.float32)
    xla_ffi_accelerate.enable()
    assert "xla_ffi_accelerate.sort" in jax.jit(jnp.sort).lower(big).as_text()
    np.testing.assert_array_equal(jnp.sort(big), np.sort(big))

    with redirect_stdout(io.StringIO()) as said:
        assert doctor.main([]) == 0
    assert "accelerate:\n" in said.getvalue(), said.getvalue()
    assert "sort" in said.getvalue().partition("accelerate:\n")[2]


def other_version():
    """accelerate beside a kit that says it is another version."""
    xla_ffi_kit.__version__ = "0.0.1"
    try:
        import xla_ffi_accelerate  # noqa: F401
    except ImportError as error:
        print(error)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
    print("all as expected")
