"""check_op over every operation of the kit."""

import functools

import inline_data  # noqa: F401  a cache of the test's own
import jax
import jax.numpy as jnp
import pytest
from common import handled, twice

import xla_ffi_kit
from xla_ffi_kit.ops import modular_add, relu
from xla_ffi_kit.ops.rms_norm import (
    rms_norm_bwd_op,
    rms_norm_fwd_op,
    rms_norm_in_place_op,
    rms_norm_op,
    rms_norm_weight_bwd_op,
    rms_norm_weight_jvp_op,
)
from xla_ffi_kit.testing import CHECKS, Case, Report, check_op
from xla_ffi_kit.testing._report import Row

jax.config.update("jax_enable_x64", True)

INTEGERS = ("no floating-point operand",)
# What may be skipped for a good operation, and for which reasons.
INDICES = "an integer may be an index, and empty rows have none"
BY_VALUE = "all operands are given by value"
SKIPPABLE = {
    "aliases": ("the operation has no aliases",),
    "empty kernel axis": ("no kernel axes", INDICES),
    "special values": ("no real floating-point operand",),
    "attributes": ("the operation has no attributes",),
    "large values": ("no floating-point operand", BY_VALUE),
    "ties": ("no numbers among operands by type",),
    "equal operands": ("no two operands of one type",),
    "integers": ("no integer operand of 32 or 64 bits",),
    "other lengths": ("no kernel axes of free length in operands by type",),
    "vmap on meshes": ("vmap repeats operands: see auto mesh, explicit mesh",),
    "side effects on meshes": ("the operation has no side effects",),
    "jacobians": (*INTEGERS, "no floating-point result"),
    **dict.fromkeys(("jvp", "grad", "second order", "vmap of grad"), INTEGERS),
}


def of_rows(op, dtype, *shapes, **attributes):
    """An operation and a call of it, with None for what is left out."""
    types = [None if shape is None else f"{dtype}[{shape}]" for shape in shapes]
    return op, Case(*types, **attributes)


X, W, S = "2,3", "3", "2"  # rows, a weight, one number for each row
BWD, WEIGHT_BWD = rms_norm_bwd_op, rms_norm_weight_bwd_op
GOOD = {
    "rms_norm": of_rows(rms_norm_op, "float32", "3,5", eps=1e-3),
    "rms_norm_fwd": of_rows(rms_norm_fwd_op, "bfloat16", "2,7", eps=1e-3),
    "rms_norm_bwd": of_rows(BWD, "float64", X, X, S),
    "rms_norm_recompute_bwd": of_rows(BWD, "float32", X, X, None, eps=1e-3),
    "rms_norm_weight": of_rows(rms_norm_op, "float32", X, W, eps=1e-3),
    "rms_norm_weight_fwd": of_rows(rms_norm_fwd_op, "float16", W, W, eps=0.1),
    "rms_norm_weight_bwd": of_rows(WEIGHT_BWD, "float64", X, X, S, W),
    "rms_norm_weight_jvp": of_rows(
        rms_norm_weight_jvp_op, "float64", W, W, "", W, W
    ),
    "rms_norm_weight_residual": of_rows(
        rms_norm_op, "float32", X, W, X, eps=1e-3
    ),
    "rms_norm_in_place": (
        *of_rows(rms_norm_in_place_op, "float32", X, W, X, eps=1e-3),
        Case("float32[2,3]", eps=1e-3),
    ),
    "rms_norm_weight_residual_fwd": of_rows(
        rms_norm_fwd_op, "bfloat16", "4", "4", "4", eps=1e-3
    ),
    "rms_norm_weight_residual_bwd": of_rows(
        WEIGHT_BWD, "float32", "1,4", "1,4", "1", "4", "1,4"
    ),
    "modular_add": (
        *of_rows(modular_add, "float32", "2,3", "2,7"),
        Case("int32[5]", "int32[3]"),
    ),
    "relu": (*of_rows(relu, "float32", X), Case("int8[4]")),
    "double in place": (
        handled("test.double", twice, linear="x", aliases={"x": 0}),
        Case("float32[3,5]"),
        Case(jnp.ones((2, 5), jnp.float32)),  # which a check donates
    ),
}


# One of each kind; of the others, which share its rules, what their handler is.
ALL = ("rms_norm_weight", "modular_add", "relu", "double in place")
HANDLER = {"values", "batch axes", "vmap", "jvp", "grad", "memory of operands"}
# Of these, that of another operation shows as much.
LINEAR = ("modular_add", "relu")
SLOW = {"second order", "jacobians", "control flow"}


@pytest.mark.parametrize("name", GOOD)
def test_operation(name):
    op, *cases = GOOD[name]
    skip = SLOW if name in LINEAR else set()
    if name not in ALL:
        skip = set(CHECKS) - HANDLER
    if name == "rms_norm_in_place":  # otherwise it is rms_norm
        skip = set(CHECKS) - {"values", "repeatable", "aliases", "grad"}
    report = check_op(op, cases, skip=skip)
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
