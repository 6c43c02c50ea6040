"""A custom call is a barrier: XLA does not fuse across it."""

import re

import jax
import numpy as np

import xla_ffi_kit

X = np.ones((64, 256), np.float32)


def block(relu):
    return lambda x, w: relu(x * w) + x


def arrays_written(f):
    """How many arrays of x's size the compiled program writes."""
    text = jax.jit(f).lower(X, X[0]).compile().as_text()
    entry = text[text.index("ENTRY") :]
    written = re.findall(r"= f32\[64,256\]\S* ([\w-]+)\(", entry)
    return [operation for operation in written if operation != "parameter"]


def test_xla_fuses_across_everything_but_a_call():
    calls = ["fusion", "custom-call", "fusion"]
    assert arrays_written(block(jax.nn.relu)) == ["fusion"]
    assert arrays_written(block(xla_ffi_kit.relu)) == calls
