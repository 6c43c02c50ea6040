"""The per-operation switch to the reference."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit.ops.relu import relu_op
from xla_ffi_kit.ops.rms_norm import rms_norm_op


def uses_kernel(function, *args):
    return "custom_call" in jax.jit(function).lower(*args).as_text()


def test_switch_by_context():
    x = jnp.ones((2, 3))
    both = jax.jit(lambda x: xla_ffi_kit.rms_norm(xla_ffi_kit.relu(x)))
    text = both.lower(x).as_text()
    assert "@xla_ffi_kit.relu(" in text and "@xla_ffi_kit.rms_norm(" in text
    with xla_ffi_kit.use_reference("relu"):
        # The same jitted function, traced anew.
        text = both.lower(x).as_text()
        assert "@xla_ffi_kit.relu(" not in text
        assert "@xla_ffi_kit.rms_norm(" in text
        with xla_ffi_kit.use_reference("xla_ffi_kit.rms_norm"):
            assert "custom_call" not in both.lower(x).as_text()
        with xla_ffi_kit.use_reference():
            assert "custom_call" not in both.lower(x).as_text()
    assert "@xla_ffi_kit.relu(" in both.lower(x).as_text()


def test_switch_by_environment():
    code = (
        "import jax, numpy as np, xla_ffi_kit as k\n"
        "f = jax.jit(lambda x: k.rms_norm(k.relu(x)))\n"
        "text = f.lower(np.ones(3, np.float32)).as_text()\n"
        "print('relu' in text, 'xla_ffi_kit.rms_norm(' in text)\n"
    )

    def run(value):
        env = os.environ | {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "XLA_FFI_KIT_REFERENCE": value,
        }
        return subprocess.run(
            [sys.executable, "-c", code],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()[1]

    assert run("") == "True"
    assert run("rms_norm, other") == "False"
    assert run("*") == "False"


def test_switch_checks_as_the_kernel_does():
    with xla_ffi_kit.use_reference(), pytest.raises(ValueError, match="rank 0"):
        rms_norm_op(jnp.float32(1), eps=1e-6)


def test_bad_switch():
    with (
        pytest.raises(TypeError, match="use_reference: argument names"),
        xla_ffi_kit.use_reference(3),
    ):
        pass
    with pytest.raises(ValueError, match="implementation: expected None or"):
        relu_op(np.float32(1), implementation="kernel")
