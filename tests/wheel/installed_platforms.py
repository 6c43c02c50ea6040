"""Looks at an installed wheel's libraries, without a GPU.

    installed_platforms.py FOLDER PLATFORM...

FOLDER is what the wheel is installed below; it has to have the libraries of
these platforms, and of no other.
"""

import sys

import jax
import jax.numpy as jnp

import xla_ffi_kit

folder, *platforms = sys.argv[1:]
libraries = [lib for lib in xla_ffi_kit.ops.LIBRARIES if lib.exists]
found = [p for lib in libraries for p in lib.platforms("xla_ffi_kit.relu")]
assert found == platforms, f"expected {platforms}, got {found}"

for library, platform in zip(libraries, platforms, strict=True):
    assert library.path.startswith(folder), library.path
    assert library.api_version == (0, 2)
    for handler in library.handlers.values():
        assert handler.metadata().api_version == (0, 2), handler
    traced = jax.jit(xla_ffi_kit.relu).trace(jnp.ones(8))
    lowered = traced.lower(lowering_platforms=(platform,))
    assert "@xla_ffi_kit.relu(" in lowered.as_text(), platform
print("all as expected")
