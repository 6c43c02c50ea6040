"""What an operation takes as operands and gives as results."""

import ctypes.util
import dataclasses
import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import operation, rows, said
from jax.experimental import hijax

import xla_ffi_kit
from xla_ffi_kit import FfiOp, c_function


@pytest.mark.parametrize("implementation", [None, "reference"])
def test_a_ref_is_read_first(implementation):
    op = operation(lambda x: x + 1)
    ref = jax.new_ref(jnp.zeros(4))

    def call(ref):
        return op(ref, implementation=implementation)

    for f in (call, jax.jit(call), jax.vmap(call)):
        assert said(f, ref) == (
            "TypeError: test.op: operand x: expected an array, got a "
            "Ref; pass what it holds, ref[...]"
        )
    with pytest.raises(TypeError, match=r"operand b: .* a Ref; pass .*\[...\]"):
        jax.jit(lambda r: xla_ffi_kit.modular_add(r, r))(ref)
    ref[...] = op(ref[...])
    np.testing.assert_array_equal(ref[...], np.ones(4))


@dataclasses.dataclass(frozen=True)
class Meters:
    """A value of a type of its own in jaxprs."""

    value: jax.Array


class MetersType(hijax.HiType):
    def __hash__(self):
        return hash(MetersType)

    def __eq__(self, other):
        return isinstance(other, MetersType)

    def lo_ty(self):
        return [hijax.ShapedArray((4,), np.dtype(np.float32))]

    def lower_val(self, meters):
        return [meters.value]

    def raise_val(self, value):
        return Meters(value)

    def to_tangent_aval(self):
        return self


hijax.register_hitype(Meters, lambda _: MetersType())


def test_a_type_of_a_users_own():
    op, meters = operation(lambda x: x + 1), Meters(jnp.arange(4.0))
    with pytest.raises(TypeError, match=r"an array, got .* \(Meters\)"):
        op(meters)
    assert said(jax.jit(op), meters) == (
        "TypeError: test.op: operand x: expected an array, got a value "
        "of type MetersType; pass the arrays in it"
    )
    with pytest.raises(TypeError, match="operand x: expected an array, got"):
        jax.jit(xla_ffi_kit.relu)(meters)


# --- Operands of the reference's signature ------------------------------------


def test_an_operand_has_no_default():
    op = operation(lambda x, y=1.0: x + y)
    assert str(inspect.signature(op)) == "(x, y, *, implementation=None)"
    assert op(1.0, 2.0) == op(1.0, y=2.0) == 3
    assert said(op, 1.0) == (
        "TypeError: test.op: operands: expected 2 (x, y), got 1; an "
        "operand has no default, so pass y, or make it a keyword-only "
        "attribute: (x, *, y=1.0)"
    )


# --- Results ------------------------------------------------------------------


def one_or_two(x, *, pair):
    return (x, 2 * x) if pair else 3 * x


@pytest.mark.parametrize("first", [True, False])
def test_an_attribute_may_decide_how_many_results_there_are(first):
    op = operation(
        one_or_two,
        attributes={"pair": np.bool_},
        vjp=(
            lambda x, *, pair: (one_or_two(x, pair=pair), None),
            lambda _, ct, *, pair: (ct[0] + 2 * ct[1] if pair else 3 * ct,),
        ),
    )
    x, two = rows(3), jax.tree.structure((0, 0))
    for pair in (first, not first, first):
        call = functools.partial(op, pair=pair)
        reference = functools.partial(call, implementation="reference")
        want = two if pair else jax.tree.structure(0)
        # jit finds the first call's trace again, and none that followed.
        for f in (call, jax.jit(call), jax.vmap(call), reference):
            assert jax.tree.structure(f(x)) == want
        y, back = jax.vjp(call, x)
        np.testing.assert_array_equal(back(y)[0], (5 if pair else 9) * x)


def test_one_result_in_a_tuple_stays_a_tuple():
    op = operation(lambda x: (2 * x,))
    for function in (op, jax.jit(op), jax.vmap(op)):
        (y,) = function(rows(2, 3))
        np.testing.assert_array_equal(y, 2 * rows(2, 3))


def test_result_types_follow_the_64_bit_setting():
    op = operation(lambda x: x * 1.0 + jnp.ones((), float))
    x = jnp.ones(3, jnp.int32)
    for wide, dtype in ((False, "float32"), (True, "float64")) * 2:
        with jax.enable_x64(wide):
            assert op(x).dtype == dtype


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("has_handler", [False, True])
def test_a_program_keeps_the_64_bit_setting_of_its_tracing(wide, has_handler):
    def third(x):
        """Narrow from outside, with bits that only a wide number has."""
        return (jnp.ones((), float) / 3 - 0.33333333).astype(x.dtype) + x * 0

    op = operation(third, handlers={"cpu": third} if has_handler else {})
    with jax.enable_x64(wide):
        for x in (jnp.ones(3, np.float32), jnp.ones(3, float)):
            want = third(x)
            for f in (op, jax.vmap(op), jax.jit(op)):
                traced = jax.jit(f).trace(x)
                with jax.enable_x64(not wide):
                    compiled = traced.lower().compile()
                got = compiled(x)
                assert got.dtype == want.dtype
                np.testing.assert_array_equal(got, want)


# --- Python's numbers have the dtype that the operation takes -----------------

LIBM = ctypes.util.find_library("m")
jn = c_function("double(int n, double x)", library=LIBM, symbol="jn")
cbrtf = c_function(
    "float(float x)",
    library=LIBM,
    symbol="cbrtf",
    jvp=lambda xs, ts: (cbrtf(*xs), ts[0] / (3 * cbrtf(*xs) ** 2)),
)


def small_sum(x, y):
    return x + y.astype(x.dtype)


small = FfiOp(
    "small",
    small_sum,
    kernel_axes=0,
    dtypes=["f32,i8", "f64,i8"],
    handlers={},
)


@pytest.fixture(params=[False, True])
def x64(request):
    with jax.enable_x64(request.param):
        yield request.param


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_a_number_has_the_parameters_dtype(wrap, x64):
    assert wrap(cbrtf)(8.0) == wrap(cbrtf)(8) == 2
    assert wrap(cbrtf)(8).dtype == np.float32
    assert jax.grad(wrap(cbrtf))(8.0) == np.float32(1 / 12)
    if x64:
        assert abs(wrap(jn)(2, 1.0) - 0.114903484931900) < 1e-14
        assert abs(wrap(jn)(2, 1) - 0.114903484931900) < 1e-14


def test_a_weak_array_is_such_a_number(x64):
    for x in (jnp.asarray(8.0), jnp.asarray(8)):
        assert x.weak_type
        assert cbrtf(x).dtype == np.float32
        assert jax.vmap(cbrtf)(x[None]).tolist() == [2]


def test_only_an_operand_of_one_dtype_tells_it(x64):
    wide = np.float64 if x64 else np.float32
    for implementation in (None, "reference"):
        for x, y in [(2.0, 3), (jnp.asarray(2.0), jnp.asarray(3))]:
            got = small(x, y, implementation=implementation)
            assert (got, got.dtype) == (5, wide)


@pytest.mark.filterwarnings("error")
def test_a_double_needs_x64(x64):
    if not x64:
        assert said(jn, 2, 1.0) == (
            "TypeError: jn: operand x: expected dtype float64 as operand n "
            "has, got float32; JAX has no float64 unless jax_enable_x64 is set"
        )
