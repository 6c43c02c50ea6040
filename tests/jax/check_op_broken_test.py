"""The test of the test: check_op catches each of these broken operations."""

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
)


import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit import FfiOp, testing
from xla_ffi_kit.ops import LIBRARIES, modular_add, relu
from xla_ffi_kit.ops.rms_norm import rms_norm_weight_bwd_op
from xla_ffi_kit.primitive import lowering
from xla_ffi_kit.testing import CHECKS, Case, CheckError, check_op

jax.config.update("jax_enable_x64", True)

LIBRARY = xla_ffi_kit.HandlerLibrary(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "test_handlers.so")
)


def kit_op(target, reference, **kwargs):
    given = {
        "kernel_axes": None if "axes" in kwargs else 1,
        "handlers": {"cpu": target},
        "libraries": [*LIBRARIES, LIBRARY],
    }
    return FfiOp("broken", reference, **(given | kwargs))


double = FfiOp(
    "test.double", lambda x: 2 * x, kernel_axes=1, libraries=[LIBRARY]
)


def scaled_jvp(factor):
    def jvp(primals, tangents):
        return 2 * primals[0], factor * tangents[0]

    return jvp


def first_order_only(primals, tangents):
    (x,), (t,) = primals, tangents
    return x**3, 3 * jax.lax.stop_gradient(x) ** 2 * t


def batch_blind_jvp(primals, tangents):
    # Right for a vector; sums over the batch of a matrix.
    (x,), (t,) = primals, tangents
    return x * jnp.sum(x, -1, keepdims=True), (t * jnp.sum(x) + x * jnp.sum(t))


def bare_double(x):
    return jax.ffi.ffi_call(
        "test.double",
        jax.ShapeDtypeStruct(x.shape, x.dtype),
        vmap_method="broadcast_all",
    )(x)


def searched_root(x):
    # Of a number of steps that depends on x: without a reverse mode.
    def step(y):
        return (y + jnp.abs(x) / y) / 2

    def is_far(y):
        return jnp.any(jnp.abs(y * y - jnp.abs(x)) > 1e-3)

    return jax.lax.while_loop(is_far, step, jnp.ones_like(x))


ROW = Case("float32[5]")
ROWS = Case("float32[3,5]")

BROKEN = {
    "another handler": (
        kit_op("xla_ffi_kit.relu", lambda x: -x),
        ROWS,
        "values",
    ),
    "a result of another dtype": (
        kit_op("test.double", lambda x: (2 * x).astype(jnp.float16)),
        ROWS,
        "values",
    ),
    "a handler that is missing": (
        kit_op("test.absent", lambda x: x),
        ROWS,
        "values",
    ),
    "a handler that is not called": (
        kit_op(
            "test.double",
            lambda x: 2 * x,
            libraries=[xla_ffi_kit.HandlerLibrary("/absent", optional=True)],
        ),
        ROWS,
        "handler",
    ),
    "an alias of a handler that is not in place": (
        kit_op(
            "test.reverse",
            lambda x: x[..., ::-1],
            aliases={"x": 0},
        ),
        ROWS,
        "aliases",
    ),
    "a reference that calls the handler": (
        kit_op("test.double", lambda x: double(x)),
        ROWS,
        "reference switch",
    ),
    "a reference that calls it on every platform": (
        kit_op("test.double", bare_double),
        ROWS,
        "other platforms",
    ),
    "an operand overwritten": (
        kit_op("test.spoil", lambda x: x),
        ROWS,
        "repeatable",
    ),
    "a side effect that is not declared": (
        kit_op("test.count", lambda x: (x, jnp.zeros(x.shape[:-1], "int32"))),
        ROW,
        "repeatable",
    ),
    "a reference that mixes the batch": (
        kit_op("test.double", lambda x: x - jnp.mean(x), handlers={}),
        ROWS,
        "batch axes",
    ),
    "a kernel that cannot batch": (
        kit_op("test.sum_one", lambda x: jnp.sum(x, -1)),
        ROW,
        "vmap",
    ),
    "a kernel that cannot broadcast": (
        kit_op(
            "xla_ffi_kit.modular_add",
            modular_add.spec.reference,
            advanced=xla_ffi_kit.Advanced(vmap_method="expand_dims"),
        ),
        Case("float32[3]", "float32[5]"),
        "vmap",
    ),
    "a wrong derivative": (
        kit_op("test.double", lambda x: 2 * x, jvp=scaled_jvp(3)),
        ROWS,
        "jvp",
    ),
    "a derivative of the wrong dtype": (
        kit_op(
            "test.double",
            lambda x: 2 * x,
            jvp=lambda p, t: (2 * p[0], t[0].astype(jnp.float16)),
        ),
        ROWS,
        "jvp",
    ),
    "a wrong transpose": (
        kit_op(
            "test.double",
            lambda x: 2 * x,
            linear="x",
            transpose=lambda ct, x: ct,
        ),
        ROWS,
        "grad",
    ),
    "linear only by its own account": (
        kit_op("test.cube", lambda x: x**3, handlers={}, linear="x"),
        ROWS,
        "grad",
    ),
    "a derivative of first order only": (
        kit_op("", lambda x: x**3, handlers={}, jvp=first_order_only),
        ROWS,
        "second order",
    ),
    "a Jacobian of first order only": (
        kit_op("", lambda x: x**3, handlers={}, jvp=first_order_only),
        ROW,
        "jacobians",
    ),
    "a handler that does not share": (
        kit_op(
            "xla_ffi_kit.modular_add", modular_add.spec.reference, shared="b"
        ),
        Case("float32[3]", "float32[5]"),
        "batch axes",
    ),
    "a handler that takes no batched weight": (
        kit_op(
            "xla_ffi_kit.rms_norm_weight_bwd",
            lambda x, ct, scale, weight: rms_norm_weight_bwd_op.reference(
                x, ct, scale, weight
            ),
            axes="(n),(n),(),(n)->(n)",
            shared=("scale", "weight"),  # the scale is one per row
            advanced=xla_ffi_kit.Advanced(
                shared_results=1, batches_shared=True
            ),
        ),
        Case("float32[3]", "float32[3]", "float32[]", "float32[3]"),
        "batch axes",
    ),
    "a sum over the rows that is not declared": (
        kit_op("", lambda w, x: x - jnp.sum(w * x), handlers={}, shared="w"),
        Case("float32[3]", "float32[3]"),
        "batch axes",
    ),
    "a shared result that is no sum": (
        kit_op(
            "",
            lambda w, x: w * jnp.max(x),
            handlers={},
            shared="w",
            advanced=xla_ffi_kit.Advanced(shared_results=0),
        ),
        Case("float32[3]", "float32[3]"),
        "batch axes",
    ),
    "a wrong gradient of a weight": (
        kit_op(
            "",
            lambda w, x: w * x,
            handlers={},
            shared="w",
            linear="w",
            transpose=lambda ct, w, x: jnp.mean(
                (ct * x).reshape(-1, x.shape[-1]), 0
            ),
        ),
        Case("float32[3]", "float32[3]"),
        "vmap of grad",
    ),
    "a derivative that mixes the batch": (
        kit_op(
            "",
            lambda x: x * jnp.sum(x, -1, keepdims=True),
            handlers={},
            jvp=batch_blind_jvp,
        ),
        ROW,
        "vmap of grad",
    ),
}


def failed(op, case, check):
    with pytest.raises(CheckError) as caught:
        check_op(op, [case], skip=set(CHECKS) - {check})
    (row,) = caught.value.report.failures
    assert row.check == check and row.message and repr(case) in row.snippet
    assert row.snippet in str(caught.value).replace("\n    ", "\n")
    return row


@pytest.mark.parametrize("name", BROKEN)
def test_broken_operation_is_caught(name):
    op, case, check = BROKEN[name]
    failed(op, case, check)


@pytest.mark.parametrize("check", ["grad", "second order", "jacobians"])
def test_a_reference_that_raises_is_a_failure(check):
    op = kit_op("", searched_root, handlers={})
    message = failed(op, ROW, check).message
    # Which error it is depends on the release of JAX.
    assert message.startswith("the reference raises ")


def test_the_report_is_short():
    """Each failure is told, and only the first is there to copy."""
    with pytest.raises(CheckError) as caught:
        op = kit_op("test.double", lambda x: 3 * x)
        check_op(op, [ROWS], skip=set(CHECKS) - {"values", "vmap"})
    text, rows = str(caught.value), caught.value.report.failures
    assert len(rows) > 1
    for row in rows:
        assert f"{row.check} failed for {row.case}: {row.message}" in text
    assert text.count("from __future__ import annotations") == 1


def test_what_the_reference_alone_raises_is_told():
    def one_row(x):
        if x.ndim > 1:
            raise RuntimeError("one row")
        return 2 * x

    op = kit_op("test.double", one_row, handlers={})
    with pytest.raises(CheckError) as caught:
        check_op(op, [ROW], skip=set(CHECKS) - {"batch axes"})
    message = caught.value.report.failures[0].message
    alone = "the reference raises " in message
    assert alone or message.endswith("alone, under JAX's rules"), message


@pytest.mark.parametrize("check", ["auto mesh", "explicit mesh"])
def test_gather_under_sharding_is_caught(check, monkeypatch):
    monkeypatch.setattr(lowering.sharding, "annotate_batch", lambda *args: None)
    op = kit_op("test.double", lambda x: 2 * x, linear="x")
    # Of batches that the devices divide.
    assert "all-gather" in failed(op, ROW, check).message


def test_unsharded_result_is_caught():
    op = FfiOp(
        "test.constant",
        lambda x: 2 * x,
        kernel_axes=1,
        handlers={"cpu": lambda x: jnp.zeros(x.shape, x.dtype)},
    )
    assert "a result is sharded as" in failed(op, ROWS, "auto mesh").message


def test_the_snippet_runs_as_it_is():
    row = failed(*BROKEN["a wrong derivative"])
    scope = {"given": BROKEN["a wrong derivative"][0]}
    exec(row.snippet.replace("op = ...", "op = given", 1), scope)
    assert jax.tree.leaves(scope["got"])


def test_completion_shows_public_names_only():
    names = {name for name in dir(testing) if not name.startswith("_")}
    assert names == set(testing.__all__)


def test_bad_arguments():
    with pytest.raises(ValueError, match="argument skip: expected names among"):
        check_op(relu, [ROWS], skip=["absent"])
    with pytest.raises(ValueError, match="argument cases: expected at least"):
        check_op(relu, [])
    for text, said in (
        ("float32", "expected a type like 'float32"),
        ("float33[2]", "float33"),
    ):
        with pytest.raises((TypeError, ValueError), match=said):
            Case(text)
    with pytest.raises(TypeError, match=r"expected \[Case.*a list, got a Case"):
        check_op(relu, ROWS)


def test_difference_sees_what_it_must():
    from xla_ffi_kit.testing._compare import difference

    one = jnp.ones(3, jnp.float32)
    assert difference(one, one) is None
    assert difference(one, one + 1e-6) is None
    assert "element [0]" in difference(one, one + 1e-3)
    assert "expected float32[3]" in difference(one[:2], one)
    assert "structure" in difference((one,), one)
    assert "element" in difference(one, one * np.nan)
    assert difference(one * np.nan, one * np.nan) is None
    assert difference(one * np.inf, one * np.inf) is None
    assert "element" in difference(one * np.inf, one)
    assert "element" in difference(jnp.int32([1, 2]), jnp.int32([1, 3]))
    assert "element" in difference(jnp.array([True]), jnp.array([False]))
