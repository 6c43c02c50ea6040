"""A program with handlers of the kit, exported for the server's tests.

    python model.py testdata/jax_0.12.0.1

writes the program, a request and JAX's own results as a reply, with the JAX
that runs.
"""

from __future__ import annotations

import io
import pathlib
import sys
from typing import Any

import client
import jax
import jax.numpy as jnp
import numpy as np

import xla_ffi_kit

# The locations in the program name files, not the folders of this machine.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")


@jax.jit
def model(
    parameters: dict[str, jax.Array], x: jax.Array, unused: jax.Array
) -> dict[str, jax.Array]:
    """A layer of a network, and results of every kind."""
    y = xla_ffi_kit.rms_norm(x, parameters["weight"]) @ parameters["matrix"]
    y = xla_ffi_kit.modular_add(parameters["bias"], y.reshape(-1))
    y = xla_ffi_kit.relu(y.reshape(x.shape[0], -1))
    return {
        "y": y,
        # Of whole numbers: a sum that any processor's order gives.
        "sum": jnp.round(y).sum(),
        "largest": jnp.argmax(y, axis=-1),
        "positive": y > 0,
        "half": y.astype(jnp.bfloat16),
        "empty": y[:0],
    }


def arguments() -> tuple[Any, ...]:
    """The arguments of `model`, the same every time."""
    random = np.random.default_rng(20)

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    parameters = {
        "weight": normal(16),
        "matrix": normal(16, 24),
        "bias": normal(8),
    }
    return parameters, normal(4, 16), np.zeros(3, np.int32)


def program() -> bytes:
    """What jax.export writes of `model`."""
    exported = jax.export.export(
        model,
        platforms=["cpu"],
        disabled_checks=xla_ffi_kit.export_checks(),
    )(*arguments())
    return bytes(exported.serialize())


def request() -> bytes:
    """The arguments as a request."""
    stream = io.BytesIO()
    client.write(stream, jax.tree.leaves(arguments()))
    return stream.getvalue()


def reply() -> bytes:
    """JAX's results as the server's reply."""
    stream = io.BytesIO()
    client.write(stream, jax.tree.leaves(model(*arguments())))
    return b"ok " + stream.getvalue()


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program").write_bytes(program())
    (folder / "request").write_bytes(request())
    (folder / "reply").write_bytes(reply())
