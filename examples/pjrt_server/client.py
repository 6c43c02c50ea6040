"""Talks to the server: NumPy arrays to requests, replies to NumPy arrays.

    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect("/run/model.sock")
        stream = connection.makefile("rwb")
        client.write(stream, jax.tree.leaves((args, kwargs)))
        stream.flush()
        results = client.read(stream)

Needs NumPy, and ml_dtypes for bfloat16; no JAX.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import BinaryIO

import ml_dtypes
import numpy as np

_DTYPES = {
    "pred": np.dtype(bool),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
    **{f"s{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)},
    **{f"u{n}": np.dtype(f"uint{n}") for n in (8, 16, 32, 64)},
    **{f"f{n}": np.dtype(f"float{n}") for n in (16, 32, 64)},
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class ServerError(Exception):
    """What the server says instead of results."""


def write(stream: BinaryIO, arrays: Iterable[np.ndarray]) -> None:
    """Writes a request: the arrays, in the order of `jax.tree.leaves`."""
    arrays = [np.asarray(array) for array in arrays]
    shapes = (
        f"{_NAMES[a.dtype]}[{','.join(map(str, a.shape))}]" for a in arrays
    )
    stream.write(" ".join(shapes).encode() + b"\n")
    for array in arrays:
        stream.write(array.tobytes())


def read(stream: BinaryIO) -> list[np.ndarray]:
    """Reads a reply: the results, in the order of `jax.tree.leaves`.

    Raises:
      ServerError: instead of results.
      EOFError: the server has closed the stream.
    """
    said, *shapes = stream.readline().decode().split(" ")
    if not said:
        raise EOFError("the server has closed the stream")
    if said != "ok" and said != "ok\n":
        raise ServerError(" ".join([said, *shapes]).rstrip("\n"))
    arrays = []
    for shape in shapes:
        name, _, dims = shape.rstrip("]\n").partition("[")
        dtype = _DTYPES[name]
        sizes = [int(size) for size in dims.split(",") if size]
        data = stream.read(math.prod(sizes) * dtype.itemsize)
        arrays.append(np.frombuffer(data, dtype).reshape(sizes))
    return arrays
