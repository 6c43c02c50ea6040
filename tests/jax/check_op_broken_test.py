"""The test of the test: check_op catches each of these broken operations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import LIBRARY, failure_of, handled, run_snippet, twice
from jax.sharding import PartitionSpec

import xla_ffi_kit
from xla_ffi_kit import Advanced, FfiOp, testing
from xla_ffi_kit.ops import LIBRARIES, modular_add
from xla_ffi_kit.ops.rms_norm import rms_norm_weight_bwd_op
from xla_ffi_kit.rules import lowering
from xla_ffi_kit.testing import CHECKS, Case, CheckError, check_op

jax.config.update("jax_enable_x64", True)


def kit_op(target, reference, **kwargs):
    given = {
        "kernel_axes": None if "axes" in kwargs else 1,
        "handlers": {"cpu": target},
        "libraries": [*LIBRARIES, LIBRARY],
    }
    return FfiOp("broken", reference, **(given | kwargs))


def cube(x):
    return x**3


double = handled("test.double", twice)


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

TWO, WEIGHED = (Case("float32[3]", f"float32[{n}]") for n in (5, 3))

# The check that fails, the operation, and the case where it is not ROWS.
BROKEN = {
    "another handler": ("values", kit_op("xla_ffi_kit.relu", lambda x: -x)),
    "a result of another dtype": (
        "values",
        kit_op("test.double", lambda x: (2 * x).astype(jnp.float16)),
    ),
    "a handler that is missing": ("values", kit_op("test.absent", lambda x: x)),
    "a handler that is not called": (
        "handler",
        kit_op(
            "test.double",
            twice,
            libraries=[xla_ffi_kit.HandlerLibrary("/absent", optional=True)],
        ),
    ),
    "an alias of a handler that is not in place": (
        "aliases",
        kit_op("test.reverse", lambda x: x[..., ::-1], aliases={"x": 0}),
    ),
    "a reference that calls the handler": (
        "reference switch",
        kit_op("test.double", lambda x: double(x)),
    ),
    "a reference that calls it on every platform": (
        "other platforms",
        kit_op("test.double", bare_double),
    ),
    "an operand overwritten": ("repeatable", kit_op("test.spoil", lambda x: x)),
    "a side effect that is not declared": (
        "repeatable",
        kit_op("test.count", lambda x: (x, jnp.zeros(x.shape[:-1], "int32"))),
        ROW,
    ),
    "a reference that mixes the batch": (
        "batch axes",
        kit_op("test.double", lambda x: x - jnp.mean(x), handlers={}),
    ),
    "a kernel that cannot batch": (
        "vmap",
        kit_op("test.sum_one", lambda x: jnp.sum(x, -1)),
        ROW,
    ),
    "a kernel that cannot broadcast": (
        "vmap",
        kit_op(
            "xla_ffi_kit.modular_add",
            modular_add.spec.reference,
            advanced=Advanced(vmap_method="expand_dims"),
        ),
        TWO,
    ),
    "a wrong derivative": (
        "jvp",
        kit_op("test.double", twice, jvp=lambda p, t: (2 * p[0], 3 * t[0])),
    ),
    "a derivative of the wrong dtype": (
        "jvp",
        kit_op(
            "test.double",
            twice,
            jvp=lambda p, t: (2 * p[0], t[0].astype(jnp.float16)),
        ),
    ),
    "a wrong transpose": (
        "grad",
        kit_op("test.double", twice, linear="x", transpose=lambda ct, x: ct),
    ),
    "linear only by its own account": (
        "grad",
        kit_op("test.cube", cube, handlers={}, linear="x"),
    ),
    "a derivative of first order only": (
        "second order",
        kit_op("", cube, handlers={}, jvp=first_order_only),
    ),
    "a Jacobian of first order only": (
        "jacobians",
        kit_op("", cube, handlers={}, jvp=first_order_only),
        ROW,
    ),
    "a handler that does not share": (
        "batch axes",
        kit_op(
            "xla_ffi_kit.modular_add", modular_add.spec.reference, shared="b"
        ),
        TWO,
    ),
    "a handler that takes no batched weight": (
        "batch axes",
        kit_op(
            "xla_ffi_kit.rms_norm_weight_bwd",
            lambda x, ct, scale, weight: rms_norm_weight_bwd_op.reference(
                x, ct, scale, weight
            ),
            axes="(n),(n),(),(n)->(n)",
            shared=("scale", "weight"),  # the scale is one per row
            advanced=Advanced(shared_results=1, batches_shared=True),
        ),
        Case("float32[3]", "float32[3]", "float32[]", "float32[3]"),
    ),
    "a sum over the rows that is not declared": (
        "batch axes",
        kit_op("", lambda w, x: x - jnp.sum(w * x), handlers={}, shared="w"),
        WEIGHED,
    ),
    "a shared result that is no sum": (
        "batch axes",
        kit_op(
            "",
            lambda w, x: w * jnp.max(x),
            handlers={},
            shared="w",
            advanced=Advanced(shared_results=0),
        ),
        WEIGHED,
    ),
    "a wrong gradient of a weight": (
        "vmap of grad",
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
        WEIGHED,
    ),
    "a derivative that mixes the batch": (
        "vmap of grad",
        kit_op(
            "",
            lambda x: x * jnp.sum(x, -1, keepdims=True),
            handlers={},
            jvp=batch_blind_jvp,
        ),
        ROW,
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_operation_is_caught(name):
    check, op, *case = BROKEN[name]
    row = failure_of(op, case[0] if case else ROWS, check)
    if name == "a wrong derivative":
        run_snippet(row, op)


ARRAYS = (
    np.array([[1 / 3, np.inf, np.nan]], np.float32),
    np.array([[1.0, 2.0, -0.0]], jnp.bfloat16),
    np.array([[True, False, True]]),
    np.zeros((2, 0)),
    7,
)


def test_an_array_is_there_to_copy():
    """As are programs, without the types of which the names are the kit's."""
    case = Case(*ARRAYS, None, "float32[2]", eps=0.5)
    names = {"np": np, "nan": np.nan, "inf": np.inf, "Case": Case}
    again = eval(repr(case), names)
    for got, want in zip(again.given, case.given, strict=True):
        assert np.asarray(got).dtype == np.asarray(want).dtype
        np.testing.assert_array_equal(got, want)
    wrong = kit_op("test.double", twice, jvp=lambda p, t: (2 * p[0], 3 * t[0]))
    case = Case(np.array([[1 / 3, 2]], np.float32))
    for check in ("jvp", "grad"):
        row = failure_of(wrong, case, check)
        run_snippet(row, wrong)
    assert "np.reshape(..., (2, 600))" in repr(Case(np.ones((2, 600))))


@pytest.mark.parametrize("check", ["grad", "second order", "jacobians"])
def test_a_reference_that_raises_is_a_failure(check):
    op = kit_op("", searched_root, handlers={})
    message = failure_of(op, ROW, check).message
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
    assert text.count("import functools") == 1


def test_what_the_reference_alone_raises_is_told():
    def one_row(x):
        if x.ndim > 1:
            raise RuntimeError("one row")
        return 2 * x

    op = kit_op("test.double", one_row, handlers={})
    message = failure_of(op, ROW, "batch axes").message
    alone = "the reference raises " in message
    assert alone or message.endswith("alone, under JAX's rules"), message


@pytest.mark.parametrize("check", ["auto mesh", "explicit mesh"])
def test_gather_under_sharding_is_caught(check, monkeypatch):
    monkeypatch.setattr(
        lowering.partitioning, "annotate_batch", lambda *args: None
    )
    op = kit_op("test.double", twice, linear="x")
    # Of batches that the devices divide.
    assert "all-gather" in failure_of(op, ROW, check).message


def test_unsharded_result_is_caught():
    def whole(x):  # It says itself how devices split it.
        zeros = jnp.zeros(x.shape, x.dtype)
        return jax.lax.with_sharding_constraint(zeros, PartitionSpec())

    op = kit_op("", twice, handlers={"cpu": whole})
    assert "a result is sharded as" in failure_of(op, ROWS, "auto mesh").message


def test_completion_shows_public_names_only():
    names = {name for name in dir(testing) if not name.startswith("_")}
    assert names == set(testing.__all__)


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


def test_a_wrong_derivative_of_small_results_beside_differences():
    def sine(x):
        return 1e-7 * jnp.sin(x)

    def op(factor):
        def fwd(x):
            return sine(x), x

        def bwd(x, ct):
            return (factor * 1e-7 * jnp.cos(x) * ct,)

        return xla_ffi_kit.rows(
            "for (int64_t i = 0; i < x.size(); ++i) "
            "y[i] = T(1e-7) * std::sin(x[i]);",
            results="y",
            dtypes="f64",
            has_reference=False,
            vjp=(fwd, bwd),
        )(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))

    case = Case("float64[5]")
    options = {
        "host": lambda x: 1e-7 * np.sin(x),
        "skip": {*CHECKS} - {"grad", "vmap of grad"},
    }
    assert str(check_op(op(1), [case], **options)).count("passed")
    with pytest.raises(CheckError, match="grad.*tolerance 5e-09"):
        check_op(op(1.5), [case], **options)
