"""A custom call is a barrier: XLA does not fuse across it."""

import re

import jax
import numpy as np
from rms_norm import reference, rms_norm

X = np.ones((64, 256), np.float32)


def block(norm):
    return lambda x, w: jax.nn.relu(norm(x) * w + x)


def arrays_written(f):
    """How many arrays of x's size the compiled program writes."""
    text = jax.jit(f).lower(X, X[0]).compile().as_text()
    entry = text[text.index("ENTRY") :]
    written = re.findall(r"= f32\[64,256\]\S* ([\w-]+)\(", entry)
    return [operation for operation in written if operation != "parameter"]


def test_xla_fuses_across_everything_but_a_call():
    assert arrays_written(block(reference)) == ["fusion"]
    assert arrays_written(block(rms_norm)) == ["custom-call", "fusion"]
