"""What an operation takes as operands and gives as results."""

import ctypes.util
import dataclasses
import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import assert_close, operation, rows, said
from jax.experimental import hijax

import xla_ffi_kit
from xla_ffi_kit import Advanced, FfiOp, _dtypes, c_function
from xla_ffi_kit.op.operands import check_dtypes
from xla_ffi_kit.ops.rms_norm import rms_norm_bwd_op, rms_norm_op
from xla_ffi_kit.strings.text import element_types
from xla_ffi_kit.testing import CHECKS, Case, check_op


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
            "TypeError: jn: operand x: expected dtype float64, got float32; "
            "JAX has no float64 unless jax_enable_x64 is set"
        )


# --- Dtypes, which every place reads in one way -------------------------------


@pytest.mark.parametrize(
    ("given", "name"),
    [
        *(("i8", "int8"), ("s64", "int64"), ("u16", "uint16")),
        *(("f32", "float32"), ("c128", "complex128")),
        ("bf16", "bfloat16"),
        ("pred", "bool"),
        ("bool", "bool"),
        ("float32", "float32"),
        ("float8_e5m2", "float8_e5m2"),
        ("int4", "int4"),
        (np.int8, "int8"),
        (np.dtype(np.complex64), "complex64"),
        (np.dtype("i8"), "int64"),
        (jnp.bfloat16, "bfloat16"),
        (bool, "bool"),
    ],
)
def test_dtypes_have_names_and_types(given, name):
    assert _dtypes.parse("f: dtypes", given).name == name


def test_dtypes_of_an_operation():
    op = operation(
        lambda x, y: x + y, "f", dtypes=["i8", "f32,s32", ("bf16", np.uint8)]
    )
    for first, second in (
        (np.int8, np.int8),
        (np.float32, np.int32),
        (jnp.bfloat16, np.uint8),
    ):
        check_dtypes(op.spec, (np.empty(1, first), np.empty(1, second)))
    assert said(check_dtypes, op.spec, (np.empty(1, np.int64),) * 2) == (
        "TypeError: f: operand x: expected dtype int8, float32, bfloat16, got "
        "int64"
    )


@pytest.mark.parametrize(
    ("given", "types"),
    [
        ("i8 f32,s32", ["int8_t", "float, int32_t"]),
        (["i8", np.float32], ["int8_t", "float"]),
        ([("bf16", np.dtype("u8")), "f64"], ["kit::bf16, uint64_t", "double"]),
    ],
)
def test_dtypes_of_a_string(given, types):
    assert element_types.template_arguments("f", given) == types


def test_dtypes_of_attributes_in_cpp():
    for declared, cpp in (
        ("i8", "int8_t"),
        (("u8",), "kit::Array<uint8_t>"),
        (str, "std::string_view"),
    ):
        assert element_types.cpp_attribute("f: attribute a", declared) == cpp
    for declared in ("i4", np.complex64, {"a": "f32"}, ("f32", "f32")):
        with pytest.raises(
            xla_ffi_kit.errors.BuildError,
            match="f: attribute a: expected one of pred",
        ):
            element_types.cpp_attribute("f: attribute a", declared)


# --- Operands that a call may leave out ---------------------------------------


def scaled(x, w=None, b=None, *, times=2.0):
    """times x w + b, and the sum if there is a bias."""
    y = times * (x if w is None else x * w)
    return y if b is None else (y + b, x + b)


seen = []


def record(*operands, times):
    seen.append(tuple(x is not None for x in operands))


scale = FfiOp(
    "test.scale",
    scaled,
    axes="(n),(n),(n)->(n)",
    shared="w",
    linear=("x", "b"),
    handlers={"cpu": scaled},
    attributes={"times": np.float64},
    advanced=Advanced(check=record),
)
X, W, B = (np.float32(v) for v in (np.ones((2, 3)), [1, 2, 3], [[4] * 3] * 2))


def close(got, want):
    leaves = [jax.tree.leaves(tree) for tree in (got, want)]
    assert_close(*leaves, rtol=1e-6)


GIVEN = [(X,), (X, W), (X, None, B), (X, W, B), (X, None), (X, None, None)]


@pytest.mark.parametrize("operands", GIVEN)
def test_none_is_left_out(operands):
    for f in (scale, jax.jit(scale), jax.jit(jax.jit(scale))):
        close(f(*operands), scaled(*operands))
    close(
        scale(*operands, times=3.0, implementation="reference"),
        scaled(*operands, times=3.0),
    )
    given = [x for x in operands if x is not None]
    jaxpr = jax.make_jaxpr(lambda *xs: scale(*xs))(*operands)
    (call,) = jaxpr.eqns
    assert call.primitive.name == "test.scale"
    assert len(call.invars) == len(given)


def test_by_name_and_as_it_looks():
    close(scale(X, b=B), scaled(X, b=B))
    close(scale(b=B, x=X, w=None), scaled(X, b=B))
    assert str(inspect.signature(scale)) == (
        "(x, w=None, b=None, *, times=2.0, implementation=None)"
    )
    assert str(inspect.signature(scale.given(X, None, B))) == (
        "(x, b=None, *, times=2.0, implementation=None)"
    )
    assert scale.given(X, None, B) is scale.given(1, None, 1)
    assert scale.given(X, W, B) is scale


def test_a_check_gets_none_for_it():
    seen.clear()
    x = np.ones((5, 3), np.float32)
    scale(x, None, x)
    assert seen == [(True, False, True)]


def test_check_op_of_some_operands():
    names = {"values", "vmap", "jvp", "grad", "jacobians", "export"}
    names |= {"batch axes", "attributes"}
    row = "float32[3]"
    cases = [
        *(Case(row, None, row), Case(row), Case(row, row, row)),
        Case("float32[2,3]", row, times=1.5),
    ]
    report = check_op(scale, cases, skip=set(CHECKS) - names)
    assert {row.status for row in report.rows} == {"passed"}
    assert repr(cases[0]) == "Case('float32[3]', None, 'float32[3]')"


def test_the_rules_of_an_author_get_none_for_it():
    def jvp(primals, tangents, *, times):
        (x, w, b), (dx, dw, db) = primals, tangents
        assert b is None and db is None
        return op(x, w, times=times), dx * w + x * dw

    def bwd(saved, ct, *, times):
        return ct * saved, None, ct  # the last one is of no operand

    made = {"attributes": {"times": np.float64}}
    op = operation(scaled, jvp=jvp, **made)
    _, tangent = jax.jvp(op, (X, X), (X, 2 * X))
    close(tangent, 3 * X)
    vjp = (lambda x, w, b, *, times: (scaled(x, w, times=times), w), bwd)
    op = operation(scaled, vjp=vjp, **made)
    close(jax.grad(lambda x: op(x, 3 * X).sum())(X), 3 * X)


def test_an_operand_that_replaces_an_attribute():
    s = np.ones(2, np.float32)
    close(rms_norm_bwd_op(X, B, eps=0.0), rms_norm_bwd_op(X, B, s))
    with pytest.raises(TypeError, match="attributes: expected eps, got none"):
        rms_norm_bwd_op(X, B)
    with pytest.raises(TypeError, match="attributes: expected none, got eps"):
        rms_norm_bwd_op(X, B, s, eps=0.0)


def test_a_handler_that_tells_operands_by_their_number():
    assert said(rms_norm_op, X, None, B, eps=0.0) == (
        "TypeError: xla_ffi_kit.rms_norm: operands: expected x and weight if "
        "there are 2, as the handler tells them by their number, got x, "
        "residual"
    )


# --- Operands of any number ---------------------------------------------------


def add(first, *more):
    return first + sum(more)


total = operation(
    add, kernel_axes=1, handlers={"cpu": add}, linear=("first", "more")
)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_repeated_operands(count):
    names = {"values", "vmap", "grad", "jvp"}
    check_op(total, [Case(*["float32[3]"] * count)], skip=set(CHECKS) - names)


def concatenate(*blocks):
    return jnp.concatenate(blocks, -1)


def test_repeated_operands_of_several_lengths():
    def blocks(axes, **options):
        return operation(
            concatenate,
            axes=axes,
            kernel_axes=None,
            handlers={"cpu": concatenate},
            **options,
        )

    parts = [np.ones((2, n), np.float32) for n in (3, 1, 4)]
    op = blocks("(_)->(m)")
    assert op(*parts).shape == (2, 8)
    check_op(op, [Case("float32[3]", "float32[1]", "float32[4]")])
    assert said(blocks("(n)->(m)"), *parts) == (
        "ValueError: test.op: operand blocks[1]: expected axis -1 of size 3, n "
        "as operand blocks[0] has it, got 1 (shape [2, 1]); an axis _ has a "
        "size of its own"
    )


def weigh(x=None, y=None, *more):
    """Each operand with a weight of its own."""
    pairs = zip((1, 10, 100, 1000), (x, y, *more), strict=False)
    return sum(w * v for w, v in pairs if v is not None)


weighed = operation(weigh, kernel_axes=1, handlers={"cpu": weigh})
PATTERNS = [
    *[(X,), (X, None), (None, X), (X, X), (None, None, X), (X, None, X)],
    *[(None, X, X), (X, X, X), (None, None, X, X), (X, None, X, X)],
]


def test_operands_are_told_apart_by_which_of_them_are_none():
    mapped, jitted = jax.vmap(weighed), jax.jit(weighed)
    for operands in (*PATTERNS, *reversed(PATTERNS)):
        want = weigh(*operands)
        for f in (weighed, jitted, mapped, jax.jit(mapped), jax.vmap(jitted)):
            close(f(*operands), want)
        given = [i for i, v in enumerate(operands) if v is not None]
        grads = jax.grad(lambda *xs: weighed(*xs).sum(), given)(*operands)
        close(grads, [np.full_like(X, 10.0**i) for i in given])


@pytest.mark.parametrize("operands", [(X, X, None), (X, X, None, X)])
def test_none_is_no_repeated_operand(operands):
    for f in (weighed, jax.jit(weighed), jax.vmap(weighed)):
        with pytest.raises(TypeError, match=r"operand more\[0\]: .*, got None"):
            f(*operands)
