"""One function for CPUs and CUDA devices: each has its own target."""

import jax
import numpy as np
import pytest
from rms_norm import PATH, reference, rms_norm

import xla_ffi_kit

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def rms_norm_cuda(x, eps=1e-5):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.ffi.ffi_call("rms_norm_cuda", out)(x, eps=np.float32(eps))


def on_both(x):
    return jax.lax.platform_dependent(x, cpu=rms_norm, cuda=rms_norm_cuda)


op_on_both = xla_ffi_kit.FfiOp(
    "rms_norm",
    reference,
    kernel_axes=1,
    handlers={"cpu": "rms_norm", "cuda": "rms_norm_cuda"},
    libraries=[
        PATH,
        xla_ffi_kit.HandlerLibrary(
            PATH.with_name("rms_norm_cuda.so"), optional=True
        ),
    ],
    attributes={"eps": np.float32},
)


def targets(text):
    names = ("rms_norm", "rms_norm_cuda")
    quoted = [f'"{name}"' for name in names], [f"@{name}(" for name in names]
    return [
        name
        for name, in_hlo, in_mlir in zip(names, *quoted, strict=True)
        if in_hlo in text or in_mlir in text
    ]


def test_both_targets_until_the_platform_is_known():
    jaxpr = str(jax.make_jaxpr(on_both)(X))
    assert "target_name=rms_norm\n" in jaxpr
    assert "target_name=rms_norm_cuda\n" in jaxpr
    traced = jax.jit(on_both).trace(X)
    both = traced.lower(lowering_platforms=("cpu", "cuda")).as_text()
    assert targets(both) == ["rms_norm", "rms_norm_cuda"]
    for platform, target in (("cpu", "rms_norm"), ("cuda", "rms_norm_cuda")):
        text = traced.lower(lowering_platforms=(platform,)).as_text()
        assert targets(text) == [target]


def test_the_compiled_program_has_one_typed_call():
    compiled = jax.jit(on_both).lower(X).compile()
    text = compiled.as_text()
    assert targets(text) == ["rms_norm"]
    assert "api_version=API_VERSION_TYPED_FFI" in text
    assert "conditional" not in text  # no choice is left to the run
    np.testing.assert_allclose(compiled(X), reference(X), 1e-6)


def test_a_platform_that_is_not_named():
    with pytest.raises(NotImplementedError, match="tpu"):
        jax.jit(on_both).trace(X).lower(lowering_platforms=("tpu",))


def test_an_ffi_op_names_its_targets_and_has_a_reference():
    traced = jax.jit(op_on_both).trace(X)
    assert targets(traced.lower().as_text()) == ["rms_norm"]
    for_tpu = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert targets(for_tpu) == [] and "stablehlo.rsqrt" in for_tpu
