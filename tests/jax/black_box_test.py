"""Operations that JAX cannot express: a shape function, rules, check_op."""

import functools
import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
)

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit import Advanced, FfiOp
from xla_ffi_kit.testing import CHECKS, Case, CheckError, check_op, on_host

jax.config.update("jax_enable_x64", True)

LIBRARY = xla_ffi_kit.HandlerLibrary(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "test_handlers.so")
)


def same(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def black_box(target="test.double", results=same, **options):
    given = {"kernel_axes": 1, "libraries": LIBRARY}
    return FfiOp(target, results=results, **(given | options))


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


def twice(x):
    return 2 * x


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
    "another function": (
        black_box("test.reverse"),
        twice,
        "values",
        "result 0: element",
    ),
    "a library that does not batch": (
        FfiOp(
            "test.broken",
            results=same,
            kernel_axes=1,
            handlers={"cpu": wrong_batch},
        ),
        lambda x: x[::-1],
        "vmap",
        "result 0: element",
    ),
    "a wrong jvp": (
        black_box(jvp=lambda p, t: (double(*p), 3 * t[0])),
        twice,
        "jvp",
        "element",
    ),
    "a wrong vjp": (
        black_box(vjp=(lambda x: (double(x), None), lambda _, ct: (ct,))),
        twice,
        "grad",
        "element",
    ),
    "a wrong transpose": (
        black_box(linear="x", transpose=lambda ct, x: ct),
        twice,
        "grad",
        "element",
    ),
    "a vjp that returns no arrays": (
        black_box(vjp=(lambda x: (double(x), None), lambda _, ct: 3)),
        twice,
        "grad",
        "vjp: bwd: cotangents: expected arrays or None, got 3",
    ),
    "a vjp whose cotangents have another shape": (
        black_box(
            vjp=(lambda x: (double(x), None), lambda _, ct: (ct[..., :1],))
        ),
        twice,
        "grad",
        "vjp: bwd: cotangent 0: expected float32[5], got float32[1]",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_caught(name):
    op, host, check, message = BROKEN[name]
    with pytest.raises(CheckError) as caught:
        check_op(op, [Case("float32[5]")], skip={*CHECKS} - {check}, host=host)
    (row,) = caught.value.report.failures
    assert row.check == check
    assert message in row.message


def test_without_a_handler_the_error_says_so():
    op = black_box("test.nowhere", libraries=())
    message = (
        "test.nowhere: no handler for {}, and no reference to run instead; its "
        "handlers: {}"
    )
    registered = "targets registered by jax.ffi.register_ffi_target"
    with pytest.raises(NotImplementedError) as caught:
        op(jnp.ones(3))
    assert str(caught.value) == message.format("cpu", registered)
    with pytest.raises(NotImplementedError) as caught:
        jax.jit(double).trace(jnp.ones(3)).lower(lowering_platforms=("tpu",))
    assert "no handler for tpu" in str(caught.value)
    assert str(caught.value).endswith(
        "its handlers: test.double for cpu, test.double for cuda"
    )


def test_there_is_no_reference_to_switch_to():
    x = jnp.ones(3, jnp.float32)
    op = black_box("test.of_library", handlers={"cpu": "test.double"})
    with pytest.raises(ValueError, match="implementation: expected None or"):
        op(x, implementation="reference")
    with pytest.raises(ValueError, match="operations with a reference, "):
        with xla_ffi_kit.use_reference("of_library"):
            pass
    with xla_ffi_kit.use_reference():  # all that have one
        np.testing.assert_array_equal(op(x), 2 * x)


def test_a_derivative_that_there_is_not():
    x = jnp.ones(3, jnp.float32)
    with pytest.raises(TypeError, match="respect to operand x: the operation"):
        jax.grad(lambda x: black_box()(x).sum())(x)
    with pytest.raises(TypeError, match="give it transpose="):
        jax.grad(lambda x: black_box(linear="x")(x).sum())(x)
    only = "test.double: no forward mode .* is for reverse mode alone"
    for forward in (
        lambda x: jax.jvp(by_vjp, (x,), (x,)),
        jax.jit(jax.jacfwd(by_vjp)),
        jax.jit(jax.vmap(jax.jacfwd(by_vjp))),
    ):
        with pytest.raises(TypeError, match=only):
            forward(x.reshape(1, -1))


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


def shared_op(**options):
    return FfiOp(
        "test.add_shared",
        results=lambda w, x: same(x),
        kernel_axes=1,
        handlers={"cpu": lambda w, x: x + w},
        shared="w",
        **options,
    )


def test_shared_operands():
    w, x = np.ones((2, 3), np.float32), np.ones((2, 4, 3), np.float32)
    want = x + w[:, None]
    np.testing.assert_array_equal(jax.vmap(shared_op())(w, x), want)
    like = on_host(shared_op(), np.add)
    np.testing.assert_array_equal(jax.vmap(like)(w, x), want)


def test_results_in_a_tuple():
    op = black_box("test.count", lambda x: (same(x), same(x[:0].astype(int))))
    with pytest.raises(TypeError, match="the shape function does not take"):
        op(jnp.ones(3))
    op = FfiOp(
        "test.pair",
        results=lambda x: (same(x), jax.ShapeDtypeStruct((), np.int32)),
        kernel_axes=1,
        handlers={"cpu": lambda x: (x, jnp.sum(x > 0, -1, dtype=np.int32))},
        vjp=(lambda x: (op(x), None), lambda _, cts: cts[0]),
    )
    y, count = jax.jit(op)(np.ones((2, 3), np.float32))
    assert y.shape == (2, 3) and count.tolist() == [3, 3]
    got = jax.grad(lambda x: jnp.vdot(op(x)[0], x))(np.ones(3, np.float32))
    np.testing.assert_array_equal(got, 2 * np.ones(3))


def test_check_op_needs_a_host_function():
    with pytest.raises(ValueError, match="argument host: expected a function"):
        check_op(double, [ROW])
    with pytest.raises(TypeError, match="argument host: expected a function"):
        check_op(double, [ROW], host=3)
    with pytest.raises(TypeError, match=r"cases: expected Case\(...\), got 3"):
        check_op(double, [3], host=twice)
    with pytest.raises(TypeError, match="tolerance_factor: expected a number"):
        check_op(double, [ROW], host=twice, tolerance_factor="2")
    with pytest.raises(TypeError, match="got one of .*: too many positional"):
        check_op(double, [ROW], host=lambda: 1)


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
    x = np.arange(np.prod((*lead, 3, 3)), dtype=np.float32)
    x = x.reshape(*lead, 3, 3)
    for f in (op, jax.jit(op), jax.vmap(op) if lead else op):
        np.testing.assert_array_equal(f(x), x[..., ::-1, :])


def test_a_partial_of_it_is_a_decorator():
    @functools.partial(FfiOp, "test.double", kernel_axes=1, libraries=LIBRARY)
    def doubled(x):
        """Twice x."""
        return 2 * x

    assert isinstance(doubled, FfiOp) and doubled.__doc__ == "Twice x."
    x = np.ones(3, np.float32)
    assert "@test.double" in jax.jit(doubled).lower(x).as_text()
    np.testing.assert_array_equal(
        jax.grad(lambda x: doubled(x).sum())(x), 2 * x
    )


def describe(shape_attributes):
    return FfiOp(
        "test.describe",
        results=lambda x, *, text: same(x),
        kernel_axes=1,
        libraries=LIBRARY,
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


@pytest.mark.parametrize(
    ("shape_attributes", "message"),
    [
        (lambda x, text: 3, "expected a mapping, got 3"),
        (
            lambda x, text: {"text": "a"},
            "expected no name that `attributes` has, got text",
        ),
        (lambda x, text: {3: 1}, "expected names, got 3"),
        (
            lambda x, text: {"n": None},
            "n: expected a NumPy scalar or array, a string, bool, int, float "
            "or a mapping of such, got None",
        ),
    ],
)
def test_bad_attributes_from_shapes(shape_attributes, message):
    with pytest.raises((TypeError, ValueError)) as caught:
        describe(shape_attributes)(jnp.zeros(5, jnp.float32), text="abc")
    assert str(caught.value).startswith("test.describe: shape_attributes")
    assert str(caught.value).endswith(message)


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


def test_the_doctor_on_a_black_box():
    from xla_ffi_kit.doctor import _environment
    from xla_ffi_kit.primitive import implementation

    op = black_box("test.to_be_registered", libraries=())
    state = implementation.of(op.spec, "cpu", ["cpu"])
    assert state.runs == "nothing: an error"
    handler = LIBRARY.handler("test.double").stages["execute"]
    capsules = {"f": jax.ffi.pycapsule(handler)}
    library = xla_ffi_kit.HandlerLibrary.from_capsules(capsules)
    state = _environment._library(library, None)
    major, minor = LIBRARY.api_version
    version = f"{major}.{minor}"
    assert (state["handlers"], state["api_version"]) == (1, version)
