"""Exports a JAX program for the C++ server of e2e/own_xla.

    tools/bazel run //examples:export_for_server [-- --check] FOLDER

Writes model.mlir (StableHLO, as text), request.txt and reply.txt, what JAX
answers to the request. With --check nothing is written; it fails where the
files are not those that JAX makes today.
"""

import argparse
import os
import pathlib
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np

import xla_ffi_kit

REQUESTS = np.array([[1, 2, 3, 4], [-1, 0.5, 0, 2], [10, -10, 3, 0.25]], "f4")


def model(x):
    """A layer of a network on one row: normalize, multiply, bias, clamp."""
    weight = jnp.array([0.5, 1, 1.5, 2], "f4")
    matrix = jnp.arange(24, dtype="f4").reshape(4, 6) / 8 - 1
    bias = jnp.array([0.25, -0.25, 1], "f4")
    hidden = xla_ffi_kit.rms_norm(x, weight) @ matrix
    return xla_ffi_kit.relu(xla_ffi_kit.modular_add(bias, hidden))


def stablehlo() -> str:
    """The model as StableHLO for the CPU, less the places in this file."""
    export = jax.export.export(
        jax.jit(model),
        platforms=["cpu"],
        disabled_checks=xla_ffi_kit.export_checks(),
    )(jax.ShapeDtypeStruct(REQUESTS.shape[1:], REQUESTS.dtype))
    text = export.mlir_module()
    text = re.sub(r"^#loc.*\n", "", text, flags=re.MULTILINE)
    return re.sub(r" loc\((?:[^()\"]|\"[^\"]*\"|\([^()]*\))*\)", "", text)


def lines(rows: np.ndarray) -> str:
    return "".join(
        " ".join(f"{value:.4f}" for value in row) + "\n" for row in rows
    )


def main() -> int:
    """Writes or checks the files; 1 if one is not up to date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    called_from = os.environ.get("BUILD_WORKING_DIRECTORY", "")
    files = {
        "model.mlir": stablehlo(),
        "request.txt": lines(REQUESTS),
        "reply.txt": lines(np.stack([model(row) for row in REQUESTS])),
    }
    stale = 0
    for name, text in files.items():
        path = called_from / options.folder / name
        if not options.check:
            path.write_text(text)
        elif path.read_text() != text:
            print(
                f"{path} is not what JAX {jax.__version__} exports: write it "
                "again with tools/bazel run //examples:export_for_server -- "
                f"{options.folder}"
            )
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
