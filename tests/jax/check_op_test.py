"""check_op over every operation of the kit."""

import functools
import os
import tempfile

os.environ["XLA_FFI_KIT_CACHE"] = tempfile.mkdtemp(
    dir=os.environ.get("TEST_TMPDIR")
)
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
)


import jax
import jax.numpy as jnp
import pytest

import xla_ffi_kit
from xla_ffi_kit import FfiOp
from xla_ffi_kit.ops import modular_add, relu
from xla_ffi_kit.ops.rms_norm import (
    rms_norm_bwd_op,
    rms_norm_fwd_op,
    rms_norm_op,
    rms_norm_weight_bwd_op,
    rms_norm_weight_jvp_op,
)
from xla_ffi_kit.testing import Case, Report, check_op
from xla_ffi_kit.testing._report import Row

jax.config.update("jax_enable_x64", True)

LIBRARY = xla_ffi_kit.HandlerLibrary(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "test_handlers.so")
)
INTEGERS = ("no floating-point operand",)
# What may be skipped for a good operation, and for which reasons.
INDICES = "an integer may be an index, and empty rows have none"
SKIPPABLE = {
    "aliases": ("the operation has no aliases",),
    "empty kernel axis": ("no kernel axes", INDICES),
    "special values": ("no real floating-point operand",),
    "attributes": ("the operation has no attributes",),
    "vmap on meshes": ("vmap repeats operands: see auto mesh, explicit mesh",),
    "side effects on meshes": ("the operation has no side effects",),
    "jacobians": (*INTEGERS, "no floating-point result", "complex Jacobians"),
    **dict.fromkeys(("jvp", "grad", "second order", "vmap of grad"), INTEGERS),
}

GOOD = {
    "rms_norm": (
        rms_norm_op,
        Case("float32[3,5]", eps=1e-3),
    ),
    "rms_norm_fwd": (rms_norm_fwd_op, Case("bfloat16[2,7]", eps=1e-3)),
    "rms_norm_bwd": (
        rms_norm_bwd_op,
        Case("float64[2,3]", "float64[2,3]", "float64[2]"),
    ),
    "rms_norm_recompute_bwd": (
        rms_norm_bwd_op,
        Case("float32[2,3]", "float32[2,3]", None, eps=1e-3),
    ),
    "rms_norm_weight": (
        rms_norm_op,
        Case("float32[2,3]", "float32[3]", eps=1e-3),
    ),
    "rms_norm_weight_fwd": (
        rms_norm_fwd_op,
        Case("float16[3]", "float16[3]", eps=0.1),
    ),
    "rms_norm_weight_bwd": (
        rms_norm_weight_bwd_op,
        Case("float64[2,3]", "float64[2,3]", "float64[2]", "float64[3]"),
    ),
    "rms_norm_weight_jvp": (
        rms_norm_weight_jvp_op,
        Case("float64[3]", "float64[3]", "float64[]", *["float64[3]"] * 2),
    ),
    "rms_norm_weight_residual": (
        rms_norm_op,
        Case("float32[2,3]", "float32[3]", "float32[2,3]", eps=1e-3),
    ),
    "rms_norm_weight_residual_fwd": (
        rms_norm_fwd_op,
        Case("bfloat16[4]", "bfloat16[4]", "bfloat16[4]", eps=1e-3),
    ),
    "rms_norm_weight_residual_bwd": (
        rms_norm_weight_bwd_op,
        Case(
            "float32[1,4]",
            "float32[1,4]",
            "float32[1]",
            "float32[4]",
            "float32[1,4]",
        ),
    ),
    "modular_add": (
        modular_add,
        Case("float32[2,3]", "float32[2,7]"),
        Case("int32[5]", "int32[3]"),
    ),
    "relu": (relu, Case("float32[2,3]"), Case("int8[4]")),
    "double in place": (
        FfiOp(
            "test.double",
            lambda x: 2 * x,
            kernel_axes=1,
            libraries=[LIBRARY],
            linear="x",
            aliases={"x": 0},
        ),
        Case("float32[3,5]"),
        Case(jnp.ones((2, 5), jnp.float32)),  # which a check donates
    ),
}


# The derivatives of these are second order of the operations they belong to.
INNER = ("rms_norm_weight_fwd", "rms_norm_weight_residual_fwd")
INNER += ("rms_norm_weight_jvp",)
# Of these, that of another handler shows as much: "rms_norm_weight", "double in
# place".
LINEAR = ("modular_add", "relu")
SLOW = ("second order", "jacobians", "control flow")
# One of each kind; the others run with --config=ci alone.
ALWAYS = ("rms_norm_weight", "modular_add", "relu", "double in place")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ALWAYS else pytest.mark.ci)
        for name in GOOD
    ],
)
def test_operation(name):
    op, *cases = GOOD[name]
    report = check_op(op, cases, skip=SLOW if name in INNER + LINEAR else ())
    print(report)
    for row in report.rows:
        reasons = SKIPPABLE.get(row.check, ())
        if name.endswith("jvp"):  # made of others
            reasons += ("no handler for cpu",)
        assert row.status == "passed" or row.message in reasons, row


def test_the_report_says_how_many_checks_are_skipped_and_why():
    row = functools.partial(Row, case="Case()", seconds=0.0)
    rows = (
        row("values", status="passed"),
        row("jvp", status="skipped", message="no floats"),
        row("vmap", status="skipped", message="no batch"),
        row("grad", status="skipped", message="no floats"),
    )
    last = str(Report("f", rows)).splitlines()[-1]
    assert last == "3 of 4 checks skipped (no floats; no batch)"
    assert "skipped (" not in str(Report("f", rows[:1]))


@xla_ffi_kit.inline(
    """
    void threes(kit::Out<float> y) {
      for (int64_t i = 0; i < y.size(); ++i) y[i] = 3;
    }""",
    kernel_axes=0,
)
def threes():
    return jnp.full(5, 3, jnp.float32)


@pytest.mark.parametrize(
    ("op", "case"), [(threes, Case()), (relu, Case("float32[0,4]"))]
)
def test_no_operands_and_no_elements(op, case):
    report = check_op(op, [case])
    assert not report.failures
