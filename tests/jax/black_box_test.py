"""Operations that JAX cannot express: a shape function, rules, check_op."""

import functools

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from common import LIBRARY, failure_of, handled, rows, said, same, twice

import xla_ffi_kit
from xla_ffi_kit import Advanced, FfiOp
from xla_ffi_kit.testing import CHECKS, Case, check_op, on_host

jax.config.update("jax_enable_x64", True)


def black_box(target="test.double", results=same, **options):
    return handled(target, results=results, **options)


double = black_box(linear="x", transpose=lambda ct, x: double(ct))
by_jvp = black_box(
    jvp=lambda primals, tangents: (by_jvp(*primals), double(*tangents))
)
by_vjp = black_box(
    vjp=(lambda x: (by_vjp(x), None), lambda _, ct: (double(ct),))
)
sum_one = black_box(
    "test.sum_one",
    lambda x: jax.ShapeDtypeStruct((), x.dtype),
    advanced=Advanced(vmap_method="sequential"),
    vjp=(
        lambda x: (sum_one(x), x),
        lambda x, ct: jnp.broadcast_to(ct, x.shape),
    ),
)
ROWS, ROW = Case("float32[2,3]"), Case("float32[3]")


@pytest.mark.parametrize(
    ("op", "host", "case"),
    [
        (double, twice, ROWS),
        (by_jvp, twice, ROW),
        (by_vjp, twice, ROW),
        (sum_one, np.sum, ROW),
    ],
    ids=["linear", "jvp", "vjp", "sequential"],
)
def test_contract(op, host, case):
    report = check_op(op, [case], host=host)
    passed = {row.check for row in report.rows if row.status == "passed"}
    assert {"memory of results", "values", "vmap", "grad"} <= passed
    assert {"other platforms", "second order", "export"} <= passed


def wrong_batch(x):
    # Of a matrix, the rows in another order.
    return black_box("test.reverse")(x.reshape(-1)).reshape(x.shape)


# Operation, function on the host, the check that fails, what it says. Those
# with a reference are in check_op_broken_test.
BROKEN = {
    "a shape function that promises too little": (
        black_box(
            results=lambda x: jax.ShapeDtypeStruct((x.shape[0] - 1,), x.dtype)
        ),
        lambda x: 2 * x[:-1],
        "memory of results",
        "result 0: the handler writes at least 4 bytes behind the 16 bytes of "
        "float32[4], which `results` promises",
    ),
    "a shape function that promises too much": (
        black_box(
            results=lambda x: jax.ShapeDtypeStruct((x.shape[0] + 1,), x.dtype)
        ),
        twice,
        "host function",
        "the operation promises float32[6] for one row, the host function "
        "returns float32[5]",
    ),
    "a library that does not batch": (
        black_box(handlers={"cpu": wrong_batch}, libraries=()),
        lambda x: x[::-1],
        "vmap",
        "result 0: element",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_caught(name):
    op, host, check, message = BROKEN[name]
    row = failure_of(op, Case("float32[5]"), check, host=host)
    assert message in row.message


def test_without_a_handler_the_error_says_so():
    message = (
        "NotImplementedError: test.{}: no handler for {}, and no reference to "
        "run instead; its handlers: {}"
    )
    op = black_box("test.nowhere", libraries=())
    registered = "targets registered by jax.ffi.register_ffi_target"
    assert said(op, jnp.ones(3)) == message.format("nowhere", "cpu", registered)
    lower = jax.jit(double).trace(rows(3)).lower
    handlers = "test.double for cpu, test.double for cuda"
    assert said(lower, lowering_platforms=("tpu",)) == (
        message.format("double", "tpu", handlers)
    )


def test_there_is_no_reference_to_switch_to():
    x = rows(3)
    op = black_box("test.of_library", handlers={"cpu": "test.double"})
    with pytest.raises(ValueError, match="implementation: expected None or"):
        op(x, implementation="reference")
    with pytest.raises(ValueError, match="operations with a reference, "):
        with xla_ffi_kit.use_reference("of_library"):
            pass
    with xla_ffi_kit.use_reference():  # all that have one
        np.testing.assert_array_equal(op(x), 2 * x)


def test_a_derivative_of_a_part():
    # c is linear, x is not; both at once take the rule.
    def slopes(saved, ct):
        c, x = saved
        return ct, jnp.zeros_like(x)

    op = black_box(
        "test.add_rows",
        lambda c, x: same(c),
        advanced=Advanced(vmap_method="expand_dims"),
        linear="c",
        transpose=lambda ct, c, x: ct,
        vjp=(lambda c, x: (op(c, x), (c, x)), slopes),
    )
    c = x = jnp.ones((2, 3), jnp.float32)
    got = jax.grad(lambda c, x: op(c, x).sum(), (0, 1))(c, x)
    np.testing.assert_array_equal(got, (c, 0 * x))


def test_results_that_are_no_floats_need_no_rule():
    @xla_ffi_kit.inline(
        """
        void sign(kit::In<float> x, kit::Out<int32_t> y) {
          for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] < 0 ? -1 : 1;
        }""",
        kernel_axes=0,
        has_reference=False,
    )
    def sign(x):
        return jax.ShapeDtypeStruct(x.shape, np.int32)

    x = np.float32([-1, 2])
    slope = jax.jit(jax.grad(lambda x: jnp.sum(sign(x) * x)))(x)
    np.testing.assert_array_equal(slope, [-1, 1])


def test_shared_operands():
    op = black_box(
        "test.add_shared",
        lambda w, x: same(x),
        handlers={"cpu": lambda w, x: x + w},
        shared="w",
    )
    w, x = np.ones((2, 3), np.float32), np.ones((2, 4, 3), np.float32)
    for f in (op, on_host(op, np.add)):
        np.testing.assert_array_equal(jax.vmap(f)(w, x), x + w[:, None])


def test_a_weight_with_a_batch_runs_in_a_loop():
    """Nothing but the handler runs it, which takes one weight."""
    op = FfiOp(
        "xla_ffi_kit.rms_norm",
        results=lambda x, w, *, eps: same(x),
        kernel_axes=1,
        libraries=xla_ffi_kit.ops.LIBRARIES,
        shared="w",
    )
    case = Case("float32[2,3]", "float32[3]", eps=0.1)
    w = jnp.ones((4, 3), np.float32)
    f = functools.partial(op, eps=0.1)
    mapped = jax.jit(jax.vmap(f, (None, 0)))
    assert "f32[4,2,3]" not in str(mapped.trace(w[:2], w).jaxpr.eqns[:-1])
    assert "while" in mapped.lower(w[:2], w).as_text()

    def host(x, w, *, eps):
        return x / np.sqrt(np.mean(x * x) + eps) * w

    (row,) = check_op(op, [case], host=host, skip={*CHECKS} - {"vmap"}).rows
    assert row.status == "passed"


def test_a_kink_near_an_operand():
    """A smaller step stays on one side of it, unless it is too near."""
    op = FfiOp(
        "test.kinked",
        results=same,
        kernel_axes=0,
        handlers={"cpu": jnp.abs},
        jvp=lambda p, t: (op(*p), jnp.sign(p[0]) * t[0]),
    )
    derived = {"jvp", "grad", "vmap of grad"}
    case = Case(np.array([1e-4, -5e-4, 2.0]))
    report = check_op(op, [case], host=np.abs, skip={*CHECKS} - derived)
    assert [row.status for row in report.rows] == ["passed"] * 3
    row = failure_of(op, Case(np.array([1e-9])), "grad", host=np.abs)
    assert "wrong where it has a kink nearby" in row.message


def test_results_in_a_tuple():
    op = black_box("test.count", lambda x: (same(x), same(x[:0].astype(int))))
    with pytest.raises(TypeError, match="the shape function does not take"):
        op(jnp.ones(3))
    op = black_box(
        "test.pair",
        lambda x: (same(x), jax.ShapeDtypeStruct((), np.int32)),
        handlers={"cpu": lambda x: (x, jnp.sum(x > 0, -1, dtype=np.int32))},
        vjp=(lambda x: (op(x), None), lambda _, cts: cts[0]),
    )
    y, count = jax.jit(op)(np.ones((2, 3), np.float32))
    assert y.shape == (2, 3) and count.tolist() == [3, 3]
    got = jax.grad(lambda x: jnp.vdot(op(x)[0], x))(np.ones(3, np.float32))
    np.testing.assert_array_equal(got, 2 * np.ones(3))


@pytest.mark.parametrize("lead", [(), (2,)])
def test_layouts(lead):
    # The handler reverses rows of memory, which are columns here.
    op = black_box(
        "test.reverse",
        kernel_axes=2,
        advanced=Advanced(
            input_layouts={"x": (1, 0)}, output_layouts={0: (1, 0)}
        ),
    )
    x = rows(*lead, 3, 3)
    for f in (op, jax.jit(op), jax.vmap(op) if lead else op):
        np.testing.assert_array_equal(f(x), x[..., ::-1, :])


def test_a_partial_of_it_is_a_decorator():
    @functools.partial(FfiOp, "test.double", kernel_axes=1, libraries=LIBRARY)
    def doubled(x):
        """Twice x."""
        return 2 * x

    assert isinstance(doubled, FfiOp) and doubled.__doc__ == "Twice x."
    assert "@test.double" in jax.jit(doubled).lower(rows(3)).as_text()


def describe(shape_attributes):
    return black_box(
        "test.describe",
        lambda x, *, text: same(x),
        attributes={"text": str},
        advanced=Advanced(shape_attributes=shape_attributes),
    )


def of_shape(x, *, text):
    return {
        "integer": np.int32(x.shape[-1]),
        "list": np.array([len(x.shape), len(text)]),
        "options": {"scale": 0.5},
        "flag": True,
    }


def test_attributes_from_shapes():
    x = jnp.zeros(5, jnp.float32)
    got = describe(of_shape)(x, text="abc")
    np.testing.assert_array_equal(got, [5, 3, 4, 0.5, 1])


def test_attributes_from_sizes_that_are_not_known():
    types = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 5"), np.float32)
    exported = jax.export.export(
        jax.jit(lambda x: describe(of_shape)(x, text="abc")),
        disabled_checks=xla_ffi_kit.export_checks(),
    )
    with pytest.raises(TypeError, match="expected sizes that are known, got"):
        exported(types)


def test_modules_that_offer_one_target():
    def capsules(symbol):
        handler = LIBRARY.handler(symbol).stages["execute"]
        return xla_ffi_kit.HandlerLibrary.from_capsules(
            {"test.of_modules": jax.ffi.pycapsule(handler)}
        )

    def op(symbol):
        return black_box("test.of_modules", libraries=capsules(symbol))

    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(op("test.double")(x), 2 * x)
    np.testing.assert_array_equal(op("test.double")(x), 2 * x)
    with pytest.raises(RuntimeError, match="is already registered from an ext"):
        op("test.reverse")(x)
