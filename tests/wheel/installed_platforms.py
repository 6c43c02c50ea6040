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
libraries = [lib for lib in xla_ffi_kit.KIT_LIBRARIES if lib.exists]
found = [library.platform for library in libraries]
assert found == platforms, f"expected {platforms}, got {found}"

for library in libraries:
    assert library.path.startswith(folder), library.path
    assert library.api_version == (0, 2)
    assert "xla_ffi_kit.relu" in library.handlers
    for handler in library.handlers.values():
        assert handler.platform == library.platform
        assert handler.metadata().api_version == (0, 2), handler
    traced = jax.jit(xla_ffi_kit.relu).trace(jnp.ones(8))
    lowered = traced.lower(lowering_platforms=(library.platform,))
    assert "@xla_ffi_kit.relu(" in lowered.as_text(), library.platform
print("all as expected")
