"""The handlers of rms_norm.cc, registered with JAX by its own functions.

Chapter 2 of docs/tutorial; the chapters after it import this file.
"""

import ctypes
import pathlib
import tempfile

import jax
import numpy as np

import xla_ffi_kit

HERE = pathlib.Path(__file__).parent
HANDLERS = {
    "rms_norm": "RmsNorm",
    "rms_norm_fwd": "RmsNormFwd",
    "rms_norm_bwd": "RmsNormBwd",
}

# Bazel's library is beside this file; with pip alone it is built here.
PATH = HERE / "librms_norm.so"
if not PATH.exists():
    _folder = tempfile.TemporaryDirectory()
    PATH = pathlib.Path(_folder.name, PATH.name)
    xla_ffi_kit.build_library([HERE / "rms_norm.cc"], HANDLERS, PATH)

library = ctypes.cdll.LoadLibrary(str(PATH))
for target, symbol in HANDLERS.items():
    capsule = jax.ffi.pycapsule(getattr(library, symbol))
    jax.ffi.register_ffi_target(target, capsule, platform="cpu")


def rms_norm(x, eps=1e-5, vmap_method=None):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    call = jax.ffi.ffi_call("rms_norm", out, vmap_method=vmap_method)
    return call(x, eps=np.float32(eps))


def reference(x, *, eps=1e-5):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + eps)


rms_norm_op = xla_ffi_kit.FfiOp(
    "rms_norm",  # the custom call target
    reference,  # the same in JAX
    kernel_axes=1,  # how many trailing axes the kernel needs whole
    libraries=[PATH],
    attributes={"eps": np.float32},
)
