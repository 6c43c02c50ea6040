"""Handlers with a workspace: one result more, which nobody sees."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import xla_ffi_kit
from xla_ffi_kit.ops.rms_norm import rms_norm_weight_bwd_op

TARGET = "xla_ffi_kit.rms_norm_weight_bwd"


def lowered(function, *operands, platform="cuda"):
    traced = jax.jit(function).trace(*operands)
    return traced.lower(lowering_platforms=(platform,)).as_text()


@pytest.fixture
def on_gpu(monkeypatch):
    """The CUDA handlers are there, as far as lowering asks for them."""
    from xla_ffi_kit.library import handler_library, registration

    find = handler_library.find

    def found(libraries, platform, target):
        if platform == "cuda":
            return libraries[0]
        return find(libraries, platform, target)

    monkeypatch.setattr(handler_library, "find", found)
    monkeypatch.setattr(registration, "register_handler", lambda *_: None)


def operands(rows, n, dtype=np.float32, lead=()):
    x = jax.ShapeDtypeStruct((*lead, rows, n), dtype)
    scale = jax.ShapeDtypeStruct((*lead, rows), np.float32)
    return x, x, scale, jax.ShapeDtypeStruct((*lead, n), dtype)


def workspaces(text):
    """The bytes of each call's last result."""
    calls = re.findall(rf"custom_call @{re.escape(TARGET)}\(.*", text)
    assert calls
    return [int(re.search(r"tensor<(\d+)xui8>", call)[1]) for call in calls]


@pytest.mark.parametrize(
    ("rows", "n", "slots"),
    [
        (1, 8, 1),
        (6, 8, 4),
        (1000, 64, 501),
        (4096, 64, 1024),
        (1 << 20, 64, 1 << 14),
        # 8 MiB, whatever the GPU.
        (4096, 8192, 256),
        (1024, 65536, 32),
    ],
)
def test_its_size_follows_from_shapes_alone(on_gpu, rows, n, slots):
    text = lowered(rms_norm_weight_bwd_op, *operands(rows, n))
    assert workspaces(text) == [slots * n * 4]


def test_it_has_sums_of_each_weight_as_wide_as_the_scale(on_gpu):
    function = jax.vmap(rms_norm_weight_bwd_op)
    text = lowered(function, *operands(6, 8, jnp.bfloat16, lead=(5,)))
    assert workspaces(text) == [5 * 4 * 8 * 4]


def test_nobody_sees_it(on_gpu):
    def loss(x, w):
        return xla_ffi_kit.rms_norm(x, w).sum()

    x = jax.ShapeDtypeStruct((6, 8), np.float32)
    w = jax.ShapeDtypeStruct((8,), np.float32)
    gradient = jax.jit(jax.grad(loss, (0, 1))).trace(x, w)
    assert [a.shape for a in gradient.jaxpr.out_avals] == [(6, 8), (8,)]
    text = lowered(jax.grad(loss, (0, 1)), x, w)
    assert len(workspaces(text)) == 1


def test_the_cpu_has_none():
    args = [np.ones(s.shape, s.dtype) for s in operands(6, 8)]
    text = lowered(rms_norm_weight_bwd_op, *args, platform="cpu")
    assert TARGET in text and "xui8" not in text
    dx, dweight = rms_norm_weight_bwd_op(*args)
    assert dx.shape == (6, 8) and dweight.shape == (8,)


def test_export_with_rows_that_are_not_known(on_gpu):
    (rows,) = export.symbolic_shape("rows", constraints=["rows >= 1"])
    exported = export.export(
        jax.jit(rms_norm_weight_bwd_op),
        platforms=["cuda"],
        disabled_checks=[export.DisabledSafetyCheck.custom_call(TARGET)],
    )(*operands(rows, 8))
    assert TARGET in exported.mlir_module()
    assert [a.shape for a in exported.out_avals] == [(rows, 8), (8,)]
