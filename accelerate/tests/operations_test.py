"""The package's own operations: check_op, the switch, export, warnings."""

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
)

import re

import jax
import jax.numpy as jnp
import pytest

import xla_ffi_accelerate.numpy as xnp
import xla_ffi_kit
from xla_ffi_accelerate.numpy._isin import isin_op
from xla_ffi_accelerate.numpy._nonzero import nonzero_op
from xla_ffi_accelerate.numpy._rows import sort_pairs_op
from xla_ffi_kit.testing import Case, check_op

jax.config.update("jax_enable_x64", True)

INTEGERS = ("no floating-point operand",)
# What may be skipped for a good operation, and for which reasons.
INDICES = "an integer may be an index, and empty rows have none"
SKIPPABLE = {
    "aliases": ("the operation has no aliases",),
    "empty kernel axis": (INDICES,),
    "equal operands": ("no two operands of one type",),
    "large values": INTEGERS,
    "integers": ("no integer operand of 32 or 64 bits",),
    "other lengths": ("no kernel axes of free length in operands by type",),
    "ties": (*INTEGERS, "no numbers among operands by type"),
    "special values": ("no real floating-point operand",),
    "attributes": ("the operation has no attributes",),
    "vmap on meshes": ("vmap repeats operands: see auto mesh, explicit mesh",),
    "side effects on meshes": ("the operation has no side effects",),
    "jacobians": (*INTEGERS, "no floating-point result"),
    **dict.fromkeys(("jvp", "grad", "second order", "vmap of grad"), INTEGERS),
}
GOOD = {
    "isin": (isin_op, Case("float32[2,6]", "float32[2,3]")),
    "nonzero": (nonzero_op, Case("bool[2,6]", size=4, fill=-1)),
    "sort_pairs": (sort_pairs_op, Case("int8[5]", "float64[5]", num_keys=1)),
}


# Of the others, numpy_test has the transformations.
@pytest.mark.parametrize("name", ["nonzero", "sort_pairs"])
def test_operation(name):
    op, case = GOOD[name]
    report = check_op(op, [case])
    print(report)
    for row in report.rows:
        reasons = SKIPPABLE.get(row.check, ())
        assert row.status == "passed" or row.message in reasons, row


X = jnp.ones((3, 4))
PUBLIC = {
    "unique": (
        lambda x: xnp.unique(
            x, size=4, return_inverse=True, return_counts=True
        )[0],
        X,
    ),
    "isin": (lambda x: xnp.isin(x, x).astype(x.dtype), jnp.ones(100)),
    "nonzero": (lambda x: x[xnp.nonzero(x, size=4)], X),
}


def targets(function, x):
    text = jax.jit(function).lower(x).as_text()
    return set(re.findall(r"@(xla_ffi_accelerate\.\w+)", text))


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_reaches_all_that_its_function_runs(name):
    function, x = PUBLIC[name]

    def loss(x):
        return (function(x) ** 2).sum()

    assert targets(function, x)
    programs = (
        (function, x),
        (jax.grad(loss), x),
        (jax.vmap(function), jnp.stack([x, x])),
    )
    for program, given in programs:
        with xla_ffi_kit.use_reference(name):
            assert not targets(program, given)


def test_export_checks_allow_its_handlers():
    wanted = jax.export.DisabledSafetyCheck.custom_call(
        "xla_ffi_accelerate.sort"
    )
    assert str(wanted) in map(str, xla_ffi_kit.export_checks())


def test_completion_shows_public_names_only():
    shown = {n for n in dir(xnp) if not n.startswith("_")}
    assert shown == set(xnp.__all__)
