"""What is wrong, and what is said of it: one table for all that refuses.

A row is a definition or a call, and behind `!` what its error says: its class,
then "operation: argument: expected this, got that". `...` stands for any text.
"""

# ruff: noqa: F401  rows have names that nothing else has

import ctypes
import ctypes.util
import functools
import pathlib
import re
import tempfile

import inline_data
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import LIBRARY, handled, operation, rows, same, twice
from numpy.ctypeslib import ndpointer
from scipy.linalg import cython_lapack
from scipy.special import cython_special

import xla_ffi_kit
from xla_ffi_kit import (
    Advanced,
    FfiOp,
    HandlerLibrary,
    _dtypes,
    c_function,
    export_checks,
    modular_add,
    relu,
    rms_norm,
)
from xla_ffi_kit.strings.text import element_types
from xla_ffi_kit.testing import Case, check_op

KIT = xla_ffi_kit.ops.LIBRARIES[0]
ONE = jnp.float32(1)
NAN = float("nan")


def table(name, text, template="{}"):
    """Rows for pytest: the code, and what it says, in a section's template."""
    found = re.findall(r"(?m)^((?:(?!!|\n).+\n)+)((?:!.*\n)+)", text + "\n")
    for i, (code, said) in enumerate(found):
        said = " ".join(line[1:].strip() for line in said.splitlines())
        yield pytest.param(code, template.format(said), id=f"{name} {i}")


def says(code, said):
    """Asserts that code raises an error that says this."""
    with pytest.raises(Exception) as caught:
        eval(code, globals())
    text = " ".join(f"{caught.typename}: {caught.value}".split())
    parts = re.split(r" ?\.\.\. ?", said)
    pattern = ".*".join(map(re.escape, parts))
    assert re.fullmatch(pattern, text), f"{said}\n\n{text}"


# --- Definitions of operations ------------------------------------------------


def spec(reference=twice, **options):
    return handled("test.double", reference, **options)


def shaped(**options):
    """Without a reference, but for what is given."""
    given = {"results": same, "kernel_axes": 1} | options
    return FfiOp("test.double", **given)


def advanced(**options):
    return shaped(advanced=Advanced(**options))


def of_axes(text="(m,n),(n)->(m)", reference=lambda a, x: a @ x, **options):
    return FfiOp("test.axes", reference, axes=text, handlers={}, **options)


def shares(**options):
    given = {"kernel_axes": 1, "handlers": {}, "shared": "w"} | options
    return FfiOp("test.shared", lambda x, w: x * w, **given)


def of_two(reference, **aliases):
    return FfiOp("test.two", reference, kernel_axes=1, aliases=aliases)


def many(x, *more):
    return x + sum(more)


def pair_of(**options):
    given = {"kernel_axes": 0} | options
    return FfiOp("f", lambda x, y: x + y, **given)


SPECS = """
spec(advanced=Advanced(vmap_method="loop"))
! ValueError: test.double: vmap_method: expected one of ('broadcast_all',
! 'expand_dims', 'sequential'), got 'loop'
advanced(symbolic_zeros=True)
! ValueError: test.double: symbolic_zeros: expected none without jvp=, which
! gets them, got True
spec(linear=("x", "y"))
! ValueError: test.double: linear: expected a name of the operands x, got 'y'
spec(vmap_method="sequential")
! TypeError: ...got an unexpected keyword argument 'vmap_method'
spec(attributes={"eps": np.float32})
! TypeError: test.double: attributes: expected those of the reference's
! signature, none, got ['eps']
spec(lambda x, *, eps: x, attributes={"eps": "no type"})
! TypeError: test.double: attribute eps: expected a NumPy scalar type, str, a
! one-tuple of a scalar type or a mapping, got 'no type'
spec(lambda x, *, implementation: x, attributes={"implementation": str})
! TypeError: test.double: attribute implementation: expected...
operation(lambda x, eps=1e-6: x, attributes={"eps": np.float64})
! TypeError: test.op: attributes: expected those of the reference's signature,
! none, got ['eps']; make them keyword-only: (x, *, eps=1e-06)
spec(lambda x, *, s: x, attributes={"s": "bf16"})
! TypeError: test.double: attribute s: expected one of pred, s8, s16, s32, s64,
! u8, u16, u32, u64, f32, f64, which XLA gives handlers, got ...
spec(lambda x, *, s: x, attributes={"s": {"a": jnp.int4}})
! TypeError: test.double: attribute s.a: expected one of pred, s8, s16, s32,
! s64, u8, u16, u32, u64, f32, f64, which XLA gives handlers, got ...
spec(lambda x, *, s: x, attributes={"s": ("pred",)})
! TypeError: test.double: attribute s: expected an array of one of s8, s16, s32,
! s64, u8, u16, u32, u64, f32, f64, which XLA gives handlers, got ...
shaped(results=None)
! TypeError: test.double: reference, results: expected one of them, a function,
! got neither
shaped(reference=twice)
! TypeError: test.double: reference, results: expected one of them, a function,
! got both
shaped(vjp=twice)
! ...: test.double: vjp: expected a pair of functions, (fwd, bwd), got
! <function twice...
shaped(vjp=(twice, twice), jvp=twice)
! ...: test.double: jvp, vjp: expected one of them, got both...
shaped(handlers={})
! ...: test.double: handlers: expected at least one, as there is no reference to
! run, got none...
shaped(handlers={"cpu": 3})
! ...: test.double: handlers: cpu: expected a custom call target, one for each
! dtype, or a function, got 3...
shaped(handlers=3)
! ...: test.double: handlers: expected a mapping, got 3...
shaped(libraries=3)
! ...: test.double: libraries: expected handler libraries or their paths, got 3
! ...
shaped(results=3)
! ...: test.double: results: expected a function, got 3...
shaped(jvp=3)
! ...: test.double: jvp: expected a function, got 3...
shaped(transpose=3, linear="x")
! ...: test.double: transpose: expected a function, got 3...
shaped(transpose=twice)
! ...: test.double: linear: expected operands that the results are linear in,
! for transpose, got none...
shaped(bilinear="x")
! ...: test.double: bilinear: expected two operands, each one array, such as
! ('a', 'x'), got x...
shaped(linear="x", bilinear=("x", "x"))
! ...: test.double: linear, bilinear: expected one of them, got both...
shaped(results=lambda x, y: x, jvp=twice, linear=("x", "y"))
! ...: test.double: linear: expected one operand beside jvp=, got x, y: the
! derivative...
shaped(results=lambda *xs: xs[0], vjp=(twice, twice), linear="xs")
! ...: test.double: linear: expected one operand beside vjp=, got xs: the
! derivative...
shaped(jvp=twice, linear="x")
! ...: test.double: jvp: expected none, as results are linear in every operand
! ...
shaped(aliases=[1])
! ...: test.double: aliases: expected a mapping, got [1]...
shaped(aliases={0: 0})
! ...: test.double: aliases: expected a name of the operands x, got 0...
shaped(aliases={"x": "y"})
! ...: test.double: aliases: expected the index of a result, as no signature
! tells: no library with its handler is given, got 'y'...
shaped(advanced={"part_of": "f"})
! ...: test.double: advanced: expected xla_ffi_kit.Advanced(...), got
! {'part_of': 'f'}...
advanced(input_layouts={"x": (0, 2)})
! ...: test.double: input_layouts: expected an order of 1 kernel axes for x, got
! (0, 2)...
advanced(check=3)
! ...: test.double: check: expected a function, got 3...
advanced(partitioned=3)
! ...: test.double: partitioned: expected a function, got 3...
advanced(workspace=3)
! ...: test.double: workspace: expected a mapping, got 3...
spec(handlers={"cpu": "t"}, advanced=Advanced(workspace={"cuda": twice}))
! ValueError: test.double: workspace: expected platforms with...
advanced(part_of=3)
! ...: test.double: part_of: expected the name of a function, or several names,
! got 3...
shaped(kernel_axes=True)
! ...: test.double: kernel_axes: expected a number >= 0 for all operands
! (axes='(),(n)->(n)' tells them apart), got True...
FfiOp("q", lambda x, y: x, kernel_axes=-1)
! ValueError: q: kernel_axes: expected a number...
of_axes("(n)->(n)")
! ValueError: test.axes: axes: expected the axes of 2 operands (a, x), got 1:
! (n)->(n)
of_axes("(n)")
! ValueError: test.axes: axes, kernel_axes: expected one of them, or axes like
! '(m,n),(n)->(m)', got '(n)'
of_axes("(n),->(n)")
! ...: expected one of them, or axes like '(m,n),(n)->(m)', got '(n),->(n)'
of_axes("(-1)->()")
! ...: expected one of them, or axes like '(m,n),(n)->(m)', got '(-1)->()'
of_axes(3)
! ...: expected one of them, or axes like '(m,n),(n)->(m)', got 3
of_axes(kernel_axes=1)
! ...: expected one of them, or axes like '(m,n),(n)->(m)', got both
shares(shared="ww")
! ValueError: test.shared: shared: expected 'w', got 'ww'
shares(shared=1)
! ValueError: test.shared: shared: expected a name of the operands x, w, got 1
shares(advanced=Advanced(vmap_method="sequential"))
! ValueError: test.shared: vmap_method: expected 'broadcast_all' or
! 'expand_dims' with shared operands, got 'sequential'
of_two(lambda x, y: x + y, x=0, y=0)
! ValueError: test.two: aliases: expected one operand for the buffer of result
! 0, got x and y; take one of them out of aliases
of_two(lambda x, y=None: x, y=0, x=0)
! ...for the buffer of result 0, got x and y; take one of them out of aliases
of_two(many, more=0)
! ...result 0, got more[0] and more[1]; take more out of aliases
of_two(many, x=0, more=0)
! ...result 0, got x and more[0]; take one of them out of aliases
pair_of(dtypes="f32")
! TypeError: f: dtypes: expected a sequence, got 'f32'...
pair_of(dtypes=np.float32)
! TypeError: f: dtypes: expected a sequence, got <class...
pair_of(dtypes=[])
! ValueError: f: dtypes: expected at least one, got none...
pair_of(dtypes=["f32,f32,f32"])
! ValueError: f: dtypes: expected 2 in each entry...
pair_of(dtypes=[["f32"]])
! ValueError: f: dtypes: expected 2 in each entry, one per...
_dtypes.parse("f: dtypes", "f8")
! TypeError: f: dtypes: expected one of pred, s8, s16, s32, s64, u8, u16, u32,
! u64, f16, bf16, f32, f64, c64, c128, or a type, or NumPy's name of one such as
! 'float32', got 'f8', which is float64 to NumPy
_dtypes.parse("f: dtypes", "c16")
! ..., got 'c16', which is complex128 to NumPy
_dtypes.parse("f: dtypes", "<f4")
! ..., got '<f4', which is float32 to NumPy
_dtypes.parse("f: dtypes", "object")
! ..., got 'object'
_dtypes.parse("f: dtypes", None)
! ..., got None
_dtypes.parse("f: dtypes", np.longdouble)
! ..., got <class 'numpy.longdouble'>
_dtypes.parse("f: dtypes", [("a", "f4")])
! ..., got [('a', 'f4')]
FfiOp("f", lambda x, *, n: x, kernel_axes=0, attributes={"n": "i4"})
! TypeError: ...got 'i4', which is int32 to NumPy...
HandlerLibrary.from_capsules({"f": 3}, "gpu")
! ValueError: HandlerLibrary.from_capsules: argument platform: expected cpu,
! cuda, rocm, got 'gpu'
HandlerLibrary.from_capsules({})
! TypeError: ...from_capsules: argument registrations: expected a mapping of
! targets to...
HandlerLibrary.from_capsules({"f": 3})
! TypeError: ...from_capsules: target 'f': expected a PyCapsule, got 3
HandlerLibrary.from_capsules({"f": {"run": 3}})
! TypeError: ...from_capsules: target 'f': expected stages of ..., got ['run']
"""

# --- Operations whose handlers have a signature, and names from there ---------

SIGNED = {
    "axis": np.int64,
    "count": np.int64,
    "eps": np.float64,
    "mode": str,
    "strides": (np.int64,),
}
GIVEN = {"axis": 0, "count": 1, "eps": 0.5, "mode": "fast", "strides": (1, 2)}
X = np.ones((2, 6), np.float32)


def takes_all(x, weight, *, axis, count, eps, mode, strides):
    return x, x[..., 0]


def signed(reference=takes_all, **options):
    return handled("test.signed", reference, **options)


def signed_call(**wrong):
    """By the handler and by a reference that would raise something else."""

    def picky(x, weight, *, axis, count, eps, mode, strides):
        some = {"fast": 9 % (10 - count), "exact": 1}[mode] // strides[1]
        return x, x[..., : some * 0 + count].astype(np.int32)

    return signed(picky)(X, X, **GIVEN | wrong, implementation="reference")


def norm(x, weight=None, residual=None, *, eps=1e-6):
    return x if residual is None else (x, x)


def norms(reference=norm, **options):
    given = {"kernel_axes": 1, "libraries": KIT} | options
    return FfiOp("xla_ffi_kit.rms_norm", reference, **given)


def backward(reference, **options):
    given = {"kernel_axes": 1, "libraries": KIT} | options
    return FfiOp("xla_ffi_kit.rms_norm_bwd", reference, **given)


def tells_nothing(target, **options):
    def reference(x, weight, *, axis, eps):
        return x

    return FfiOp(target, reference, **options)


SIGNATURES = """
signed(lambda x, *, axis, count, eps, mode, strides: x)
! ValueError: test.signed: reference: expected 2 operands, (x, weight), as the
! handler test.signed of test_handlers.so takes them, got 1: (x)
signed(lambda x, weight, *, axis: x, attributes={"axis": np.int64})
! ValueError: test.signed: attributes: expected {axis, count, eps, mode,
! strides}, as the handler test.signed of test_handlers.so takes them, got
! {axis}
signed(lambda x, weight, *, axis, count, eps, k, mode, strides: x)
! ValueError: test.signed: attributes: expected {axis, count, eps, mode,
! strides}, as the handler test.signed of test_handlers.so takes them, got
! {axis, count, eps, k, mode, strides}; attributes={"k": None} keeps such from
! it
signed(attributes=SIGNED | {"eps": np.float32})
! ValueError: test.signed: attribute eps: expected the type f64, as the handler
! test.signed of test_handlers.so takes it, got f32
signed(attributes=SIGNED | {"strides": np.int64})
! ...attribute strides: expected the type array of s64, as..., got s64
signed(attributes=SIGNED | {"mode": np.int64})
! ...attribute mode: expected the type string, as..., got s64
signed(dtypes=("f32", "bf16"))
! ValueError: test.signed: dtypes: expected one of f32, f64 for operand x, as
! the handler test.signed of test_handlers.so takes it, got bf16
signed_call(count=-1)
! ValueError: test.signed: attribute count: expected 0 to 9, got -1
signed_call(count=10)
! ValueError: test.signed: attribute count: expected 0 to 9, got 10
signed_call(mode="slow")
! ValueError: test.signed: attribute mode: expected fast or exact, got slow
signed_call(strides=(1, 0))
! ValueError: test.signed: attribute strides: expected 1 to 2^30, got 0
signed_call(strides=(1,))
! ValueError: test.signed: attribute strides: expected 2 elements, got 1
norms(lambda x, *, eps: x)(X, eps=-0.5)
! ValueError: xla_ffi_kit.rms_norm: attribute eps: expected a finite value >= 0,
! got -0.5
norms(lambda x, *, eps: x)(X, eps=NAN)
! ...attribute eps: expected a finite value >= 0, got nan
norms(lambda x, w, r, s, *, eps: x)
! ValueError: xla_ffi_kit.rms_norm: reference: expected 1 to 3 operands, (x,
! weight?, residual?), as the handler xla_ffi_kit.rms_norm of xla_ffi_kit_cpu.so
! takes them, got 4: (x, w, r, s)
norms(lambda *xs: xs[0])
! ValueError: xla_ffi_kit.rms_norm: ...expected 1 to 3 operands, (x, weig...
norms(attributes={"eps": np.int64})
! ValueError: ...expected the type f32 or f64, as the handler...
backward(lambda x, c, s, *, eps: x, attributes={"eps": np.float64})
! ValueError: ...attributes: expected {}, as the...
backward(lambda x, ct=None: x)
! ValueError: xla_ffi_kit.rms_norm_bwd: operand ct: expected no default None, as
! the handler xla_ffi_kit.rms_norm_bwd of xla_ffi_kit_cpu.so takes them, got one
norms(aliases={"x": "yy"})
! ValueError: xla_ffi_kit.rms_norm: aliases: expected 'y', got 'yy'
norms(aliases={"x": "z"})
! ValueError: xla_ffi_kit.rms_norm: aliases: expected a name of the results y,
! sum, scale, got 'z'
norms(aliases={"x": "sum", "residual": 1})
! ValueError: xla_ffi_kit.rms_norm: aliases: expected one operand for the buffer
! of result 1 (sum), got x and residual; take one of them out of aliases
norms(aliases={"x": 1, "weight": "scale"})(X, X[0])
! ValueError: ...result 1 (scale), got x and weight...
norms(advanced=Advanced(output_layouts={"y": (0,), 0: (0,)}))
! ValueError: xla_ffi_kit.rms_norm: output_layouts: expected one order for
! result 0 (y), got two, for 'y' and 0
norms(linear="weihgt")
! ValueError: xla_ffi_kit.rms_norm: linear: expected 'weight', got 'weihgt'
norms(advanced=Advanced(input_layouts={"resid": (0,)}))
! ValueError: xla_ffi_kit.rms_norm: input_layouts: expected 'residual', got
! 'resid'
tells_nothing("test.double", libraries=LIBRARY)
! TypeError: test.double: axes, kernel_axes: expected one of them, such as
! '(n)->(n)' or 1, as no signature tells: the handler test.double of
! test_handlers.so states none, got none
tells_nothing("test.double", libraries=LIBRARY, kernel_axes=1)
! TypeError: test.double: attributes: expected the types of axis, eps, as no
! signature tells: the handler test.double of test_handlers.so states none, got
! none
tells_nothing("test.typo", libraries=LIBRARY, kernel_axes=1)
! ..., as no signature tells: no library has a handler 'test.typo'; they offer:
! test.add_rows, ..., got none
tells_nothing("test.no", attributes={"axis": np.int64, "eps": np.float64})
! TypeError: test.no: axes, kernel_axes: expected one of them, such as
! '(n)->(n)' or 1, as no signature tells: no library with its handler is given,
! got none
"""

# --- Calls --------------------------------------------------------------------


def describes(x, *, integer, text, list, options, flag):
    return x


describe = handled(
    "test.describe",
    describes,
    attributes={
        "integer": np.int32,
        "text": str,
        "list": (np.int64,),
        "options": {"scale": np.float64},
        "flag": np.bool_,
    },
)
GOOD = {
    "integer": 3,
    "text": "abcd",
    "list": [1, 2, 3],
    "options": {"scale": 0.5},
    "flag": True,
}


def described(**wrong):
    return describe(rows(5), **GOOD | wrong)


def of_attribute(kind, value):
    op = operation(lambda x, *, s: x, attributes={"s": kind})
    return op(1.0, s=value)


def black_box(shape_attributes):
    op = handled(
        "test.describe",
        results=lambda x, *, text: same(x),
        attributes={"text": str},
        advanced=Advanced(shape_attributes=lambda x, text: shape_attributes),
    )
    return op(rows(5), text="abc")


def traced(**options):
    given = {"reference": None, "results": same} | options
    return jax.jit(spec(**given)).trace(np.ones(3, np.float32))


def times(x, y, *, factor=2.0, offset):
    return factor * x * y + offset


takes_two = operation(
    times,
    "test.times",
    attributes={"factor": np.float64, "offset": np.float64},
    dtypes=["float32", ("bfloat16", "float32")],
)
add = handled("test.add", lambda x, y: x + y)
sum_one = handled(
    "test.sum_one",
    lambda x: jnp.sum(x, -1),
    advanced=Advanced(vmap_method="sequential"),
)
small = pair_of(dtypes=["f32,i8", "f64,i8"], handlers={})
scale = FfiOp(
    "test.scale",
    lambda x, w=None, b=None: x,
    axes="(n),(n),(n)->(n)",
    handlers={"cpu": "test.scale"},
)
total = operation(lambda first, *more: first + sum(more), kernel_axes=1)
none = operation(
    lambda x, *, by=None, scale=1.0: x,
    attributes={"by": np.float32, "scale": np.float32},
)
cos = c_function(
    "double(double x)",
    library=ctypes.util.find_library("m"),
    symbol="cos",
    name="cosine",
)
ROWS = np.ones((2, 3), np.float32)
INTEGERS = np.ones(3, np.int32)
BITS = np.ones(3, bool)

CALLS = """
traced(results=lambda x: 3)
! ...results: expected a jax.ShapeDtypeStruct, or a tuple of them, got 3...
traced(results=lambda x: x.shape[1])
! ...the shape function does not take operands x float32[3]: ...
traced(results=lambda x: jax.ShapeDtypeStruct((2, -1), x.dtype))
! ...results: result 0: expected sizes >= 0, got shape [2, -1]...
traced(axes="(n)->(n),(n)")
! ...axes: expected the axes of 1 results or fewer, got 2...
traced(aliases={"x": 1})
! ...aliases: expected results below 1, got 1...
traced(advanced=Advanced(output_layouts={0: (1, 0)}))
! ...output_layouts: expected an order of 1 kernel axes for result 0, got (1, 0)
! ...
handled("test.double", lambda x: jnp.sum(x, -1), aliases={"x": 0})(rows(2, 3))
! ValueError: test.double: aliases: operand x is float32[2, 3], expected
! float32[2] as result 0 is
add(rows(2, 3), rows(1, 3))
! ValueError: test.add: operand y: expected batch dimensions [2] as operand x
! has, got [1]
add(rows(3))
! TypeError: test.add: operands: expected 2 (x, y), got 1
add(rows(3), rows(3), rows(3))
! TypeError: test.add: operands: expected 2 (x, y), got 3
add("text", rows(3))
! TypeError: test.add: operand x: expected an array, got 'text' (str)
add(rows(3), rows(3), y=rows(3))
! TypeError: test.add: ...operand y: expected it once, got it by position and as
! y=...
handled("test.add_rows", lambda x, y: x + y)(rows(2), rows(3))
! TypeError: test.add_rows: the reference does not take operands x float32[2], y
! float32[3]: ...
FfiOp("t.no", lambda x: x, kernel_axes=1, handlers={"cpu": "t.no"})(rows(3))
! ...t.no...
sum_one(rows(2, 3))
! ValueError: test.sum_one: operand x: expected rank 1 (vmap it over more), got
! rank 2
of_axes()(rows(3, 4), rows(5))
! ValueError: test.axes: operand x: expected axis -1 of size 4, n as operand a
! has it, got 5 (shape [5])
of_axes("(n,n)->(n,n)", lambda x: x)(rows(2, 3, 4))
! ValueError: test.axes: operand x: expected axis -1 of size 3, n as operand x
! has it, got 4 (shape [2, 3, 4])
of_axes("(3)->(3)", lambda x: x)(rows(4))
! ValueError: test.axes: operand x: expected axis -1 of size 3, got 4 (shape
! [4])
jax.vmap(jax.jit(of_axes("(n)->(n)", lambda x: x[..., :1])))(rows(1, 4))
! ValueError: test.axes: result 0: expected axis -1 of size 4, n as operand x
! has it, got 1 (shape [1])
of_axes("(n)->()", lambda x: x)(rows(2, 4))
! ValueError: test.axes: axes: result 0: expected 0 kernel axes (), got 1, shape
! [2, 4]
of_axes("()->(n)", lambda x: x)(rows(2, 4))
! ValueError: test.axes: axes: result 0: expected 1 kernel axes (n), got 0,
! shape [2, 4]
shares()(rows(2, 3), rows(3, 3))
! ValueError: test.shared: operand w: expected no batch dimensions, or the first
! ones of [2] as operand x has, got [3]
shares(advanced=Advanced(shared_results=1))(rows(2, 3), rows(3))
! ValueError: test.shared: shared_results: expected results below 1, got 1
operation(lambda x: {"y": x})(rows(3))
! TypeError: test.op: results of the reference: expected an array or a tuple of
! arrays, got PyTreeDef({'y': *})
operation(lambda x: jnp.sum(x), kernel_axes=1)(rows(2, 3))
! ValueError: test.op: result 0 of the reference: expected batch dimensions [2]
! as the operands have, got shape []
operation(lambda x, y=1.0: x + y)(1.0)
! TypeError: test.op: operands: expected 2 (x, y), got 1; an operand has no
! default, so pass y, or make it a keyword-only attribute: (x, *, y=1.0)
none(1.0)
! TypeError: test.op: attributes: expected by, scale, got scale; by has the
! default None, which is no value for a handler, so pass it
none(1.0, by=None)
! TypeError: ...by: expected a float32 ..., got None...
takes_two(ROWS, ROWS)
! TypeError: ...expected factor, offset, got factor...
takes_two(jnp.ones(2, jnp.float16), jnp.ones(2), offset=0.0)
! TypeError: test.times: operand x: expected dtype float32, bfloat16, got
! float16
takes_two(jnp.ones(2), jnp.ones(2, jnp.bfloat16), offset=0.0)
! TypeError: test.times: operand y: expected dtype float32 as operand x has, got
! bfloat16
small(1.0, jnp.int16(3))
! TypeError: f: operand y: expected dtype int8 beside float32 of operand x,
! got int16
pair_of(dtypes=["f32,i8"], handlers={})(1.0, jnp.int16(3))
! TypeError: f: operand y: expected dtype int8, got int16
small(1.0, True)
! TypeError: f: operand y: expected dtype int8 beside float32 of operand x,
! got bool
small(1.0, 3.0)
! TypeError: f: operand y: expected dtype int8 beside float32 of operand x,
! got float32
small(1.0, 128)
! ValueError: f: operand y: expected a number that int8 has, got 128
small(1.0, -(2**70))
! ValueError: f: operand y: expected a number that int8 has, got
! -1180591620717411303424
cos(np.float32(1))
! TypeError: cosine: operand x: expected dtype float64, got float32; JAX has no
! float64 unless jax_enable_x64 is set
scale()
! TypeError: test.scale: operands: expected 1 to 3 (x, w, b), got 0...
scale(X, X, X, X)
! TypeError: test.scale: operands: expected 1 to 3 (x, w, b), got 4...
scale.given(X, X, X, X)
! TypeError: ...expected 1 to 3 (x, w, b), got...
scale(None)
! TypeError: test.scale: operand x: expected an array, got None...
scale(X, X, w=X)
! TypeError: test.scale: operand w: expected it once, got it by position and as
! w=...
scale(X, None, w=X)
! TypeError: test.scale: operand w: expected it once, got it by position and as
! w=...
scale(X, (None, 1.0))
! TypeError: ...operand w: expected an array, got (None, 1.0) (tuple)...
total(X, X, X[:1])
! ValueError: ...operand more[1]: expected batch...
total()
! TypeError: ...operands: expected 1 or more...
total(X, None)
! TypeError: ...operand more[0]: ..., got None...
described(integer=1.5)
! TypeError: test.describe: attribute integer: expected an int32 scalar, got 1.5
! (float); a string of C++ has the type from the default: write that with a
! point, such as 3.0, to pass fractions
described(integer=2**31)
! ValueError: test.describe: attribute integer: expected int32, -2147483648 to
! 2147483647, got 2147483648
described(integer=True)
! TypeError: test.describe: attribute integer: expected an int32 scalar, got
! True (bool)
described(flag=1)
! TypeError: test.describe: attribute flag: expected a bool scalar, got 1 (int)
described(text=b"x")
! TypeError: test.describe: attribute text: expected a string, got b'x' (bytes)
described(list=3)
! TypeError: test.describe: attribute list: expected a sequence of int64, got 3
! (int)
described(list=[1, "2"])
! TypeError: test.describe: attribute list[1]: expected an int64 scalar, got '2'
! (str)
described(options={})
! TypeError: test.describe: attribute options: expected a mapping of scale, got
! {} (dict)
described(options={"scale": "1"})
! TypeError: test.describe: attribute options.scale: expected a float64 scalar,
! got '1' (str)
described(more=1)
! TypeError: test.describe: attributes: expected flag, integer, list, options,
! text, got flag, integer, list, more, options, text; more is no attribute
described(flags=1)
! TypeError: test.describe: attributes: expected flag, integer, list, options,
! text, got flag, flags, integer, list, options, text; flags is no attribute;
! did you mean flag?
jax.jit(lambda i: described(integer=i))(3)
! TypeError: test.describe: attribute integer: expected a static value, got a
! traced one; pass it as a Python number (jit: static_argnames)
of_attribute(np.float32, 1e300)
! ValueError: test.op: attribute s: expected float32, -3.4028235e+38 to
! 3.4028235e+38, got 1e+300
of_attribute(np.float32, 10**400)
! ValueError: test.op: attribute s: expected float32, -3.4028235e+38 to
! 3.4028235e+38, got 1000...
of_attribute(np.float64, -(10**400))
! ValueError: test.op: attribute s: expected float64, -1.7976931348623157e+308
! to 1.7976931348623157e+308, got -1000...
of_attribute((np.float32,), [0.0, 1e39])
! ValueError: test.op: attribute s[1]: expected float32, ..., got 1e+39
of_attribute({"a": "f32"}, {"a": 1e39})
! ValueError: test.op: attribute s.a: expected float32, ..., got 1e+39
of_attribute("i8", 128)
! ValueError: ...expected int8, -128 to 127, got 128
of_attribute(("u8",), [256])
! ValueError: ...expected uint8, 0 to 255, got 256
of_attribute(None, [2, 3])
! TypeError: test.op: attribute s: expected a hashable value, such as a tuple,
! got [2, 3] (list)
of_attribute(None, jnp.ones(2))
! TypeError: test.op: attribute s: expected a hashable value, such as a tuple,
! got ...
black_box(3)
! ...: test.describe: shape_attributes: expected a mapping, got 3
black_box({"text": "a"})
! ...: test.describe: shape_attributes: expected no name that `attributes` has,
! got text
black_box({3: 1})
! ...: test.describe: shape_attributes: expected names, got 3
black_box({"n": None})
! ...: test.describe: shape_attributes: n: expected a NumPy scalar or array, a
! string, bool, int, float or a mapping of such, got None
relu(ONE, implementation="kernel")
! ValueError: ...expected None, 'reference' or 'handler'...
xla_ffi_kit.use_reference(3).__enter__()
! TypeError: use_reference: argument names...
xla_ffi_kit.use_reference("typo").__enter__()
! ValueError: ...expected names of operations, ...relu...
relu(np.ones(3, "uint8"))
! TypeError: xla_ffi_kit.relu: operand x: expected dtype float8_e5m2, float16,
! bfloat16, float32, float64, int8, int16, int32, int64, got uint8
modular_add(1.0, np.ones(3))
! ValueError: xla_ffi_kit.modular_add: operand b: expected rank >= 1, got rank 0
modular_add(INTEGERS, np.ones(3, np.int16))
! TypeError: xla_ffi_kit.modular_add: operand c: expected dtype int32 as operand
! b has, got int16
modular_add(np.ones((2, 3)), np.ones((4, 3)))
! ValueError: xla_ffi_kit.modular_add: operand c: expected batch dimensions [2]
! as operand b has, got [4]
modular_add(np.ones(0), np.ones(3))
! ValueError: xla_ffi_kit.modular_add: operand b: expected axis -1 of size >= 1,
! got 0 (shape [0])
modular_add(BITS, BITS)
! TypeError: xla_ffi_kit.modular_add: operand b: expected dtype float16,
! bfloat16, float32, float64, complex64, complex128, int8, int16, int32, int64,
! uint8, uint16, uint32, uint64, got bool
rms_norm(np.float32(1))
! ValueError: xla_ffi_kit.rms_norm: operand x: expected rank >= 1, got rank 0
rms_norm(np.ones((2, 0), np.float32))
! ValueError: xla_ffi_kit.rms_norm: operand x: expected axis -1 of size >= 1,
! got 0 (shape [2, 0])
rms_norm(INTEGERS)
! TypeError: xla_ffi_kit.rms_norm: operand x: expected dtype float16, bfloat16,
! float32, float64, complex64, complex128, got int32
rms_norm(ROWS, ROWS[0, :2])
! ValueError: xla_ffi_kit.rms_norm: operand weight: expected shape [3], got [2]
rms_norm(ROWS, np.ones(3, np.float16))
! TypeError: xla_ffi_kit.rms_norm: operand weight: expected dtype float32 as
! operand x has, got float16
rms_norm(ROWS, residual=ROWS[0])
! ValueError: xla_ffi_kit.rms_norm: operand residual: expected shape [2, 3], got
! [3]
rms_norm(ROWS, eps=-1.0)
! ValueError: xla_ffi_kit.rms_norm: argument eps: expected a finite number >= 0,
! got -1.0
rms_norm(ROWS, eps="1e-6")
! TypeError: ...argument eps: expected a finite number >= 0, got '1e-6' (str)
rms_norm(ROWS, eps=True)
! TypeError: ...argument eps: expected a finite number >= 0, got True (bool)
jax.jit(lambda x, eps: rms_norm(x, eps=eps))(ROWS, 1e-6)
! TypeError: xla_ffi_kit.rms_norm: argument eps: expected a static number, got a
! traced one; pass it as a Python number (jit: static_argnames)
export_checks(relu, jax.jit)
! TypeError: export_checks: argument ops: expected operations, got <function
! jit...; name the operations that it calls, or none: export_checks() allows
! every operation of this process
export_checks(relu, "relu")
! TypeError: export_checks: argument ops: expected operations, got 'relu'; ...
check_op(rms_norm, [Case("float32[2]")])
! TypeError: check_op: argument op: expected an operation, got <function
! rms_norm...; check each operation that it calls
check_op(relu, [Case("float32[2]")], skip=["absent"])
! ...argument skip: expected names among...
check_op(relu, [])
! ...argument cases: expected at least one...
Case("f4[3]").operands()
! TypeError: Case: operand: expected one of pred...
Case("float32")
! ...expected a type like 'float32...
Case("float33[2]").operands()
! ...float33...
"""

# --- Rules of derivatives -----------------------------------------------------


def two(x, y):
    return x * y, x + y


def pushed(rule):
    return jax.jvp(operation(two, jvp=rule), (ONE, ONE), (ONE, ONE))


def gradient(op):
    return jax.grad(lambda *x: sum(jax.tree.leaves(op(*x))), (0, 1))(ONE, ONE)


def pulled(fwd=lambda x, y: (two(x, y), None), bwd=lambda _, ct: ct):
    return gradient(operation(two, vjp=(fwd, bwd)))


def transposed(returned):
    op = operation(
        lambda x, y: x + y,
        linear=("x", "y"),
        transpose=lambda *_: returned,
    )
    return gradient(op)


product = operation(lambda x, y: x * y, bilinear=("x", "y"))
by_vjp = handled(
    "test.double",
    results=same,
    vjp=(lambda x: (by_vjp(x), None), lambda _, ct: (ct,)),
)

DERIVATIVES = """
pushed(lambda p, t: t[0])
! TypeError: test.op: jvp: expected (results, tangents), got an array
pushed(lambda p, t: (p, t, ()))
! TypeError: test.op: jvp: expected (results, tangents), got a tuple of 3
pushed(lambda p, t: (p[0], t))
! TypeError: test.op: jvp: results: expected 2, got 1
pushed(lambda p, t: (p, (*t, t[0])))
! TypeError: test.op: jvp: tangents: expected 2, one for each result, got 3
pushed(lambda p, t: (list(p), t))
! TypeError: test.op: jvp: results: expected an array or a tuple of arrays, got
! a list of 2
pushed(lambda p, t: (p, (0.0, t[1])))
! TypeError: test.op: jvp: tangents: expected an array or a tuple of arrays, got
! 0.0
pulled(lambda x, y: two(x, y)[0])
! TypeError: test.op: vjp: fwd: expected (results, residuals), got an array
pulled(lambda x, y: (x, None))
! TypeError: test.op: vjp: fwd: results: expected 2, got 1
pulled(lambda x, y: ([x, y], None))
! TypeError: test.op: vjp: fwd: results: expected an array or a tuple of arrays,
! got a list of 2
pulled(lambda x, y: ((x.astype(int), y), None))
! TypeError: test.op: vjp: fwd: result 0: expected float32[], got int32[]
pulled(bwd=lambda _, ct: ct[0])
! TypeError: test.op: vjp: bwd: cotangents: expected 2, one for each operand
! (None for one without), got 1
pulled(bwd=lambda _, ct: {"x": ct[0]})
! TypeError: test.op: vjp: bwd: cotangents: expected arrays or None, got a dict
! of 1
pulled(bwd=lambda _, ct: 3)
! TypeError: test.op: vjp: bwd: cotangents: expected arrays or None, got 3
pulled(bwd=lambda _, ct: (ct[0][None], ct[1]))
! TypeError: test.op: vjp: bwd: cotangent 0: expected float32[], got float32[1]
transposed((ONE,))
! TypeError: test.op: transpose: cotangents: expected 2, one for each linear
! operand (None for one without), got 1
transposed((ONE, 1.0))
! TypeError: test.op: transpose: cotangents: expected arrays or None, got 1.0
transposed((ONE, None))
! TypeError: test.op: transpose: cotangent of operand 1: expected float32[], got
! None
jax.linear_transpose(product, ONE, ONE)(ONE)
! TypeError: test.op: cannot transpose with respect to x and y together: the
! operation is bilinear, which is linear in one of them while the other is fixed
jax.grad(lambda x: spec(None, results=same)(x).sum())(rows(3))
! ...respect to operand x: the operation has no reference, ...if it is a string
! of C++, derivatives='kernel'...
jax.grad(lambda x: spec(None, results=same, linear="x")(x).sum())(rows(3))
! NotDifferentiableError: ...give it transpose=...
jax.jit(jax.vmap(jax.jacfwd(by_vjp)))(rows(1, 3))
! NotDifferentiableError: test.double: no forward mode ... is for reverse mode
! alone...
"""

# --- Functions of C -----------------------------------------------------------

LIBM = ctypes.util.find_library("m")
SPECIAL = cython_special.__pyx_capi__
DOUBLE, INT, LONG = ctypes.c_double, ctypes.c_int, ctypes.c_long
DOUBLES, FLOATS = map(ctypes.POINTER, (DOUBLE, ctypes.c_float))
POINTERS = "void(const double* x, out double* y)"
DOT = "double(const double* x, const double* w, int64_t n)"
SCALE = "int(const float* x, out float* y, int64_t n, float a)"
OF_NUMBER = ctypes.CFUNCTYPE(DOUBLE, DOUBLE)


def own(signature, **options):
    """Of a function with a name, which is not called."""
    return c_function(signature, **{"function": 1, "name": "f"} | options)


def of_libm(symbol="cos", **options):
    given = {"library": LIBM, "symbol": symbol} | options
    return c_function("double(double)", **given)


def of_types(restype, *argtypes, signature=DOT):
    """A function of a library, of which ctypes knows only what is said."""
    function = ctypes.CDLL(LIBM)["atan2"]
    function.restype, function.argtypes = restype, argtypes
    return c_function(signature, function, name="f")


class Pair(ctypes.Structure):
    _fields_ = [("x", DOUBLES), ("y", DOUBLES)]


C_FUNCTIONS = """
own("double(long double x)")
! ...f: signature: expected C's numbers (double, float, bool, int, long, size_t,
! int32_t and the like), got 'long double' in 'double(long double x)'...
own("double")
! ...signature: expected a C function's type, such as 'double(double, int)', got
! no ( in 'double'...
own("double(double x y)")
! ...expected a type and at most one name, got 'y'...
own("double(double** x)")
! ...expected pointers to numbers, got a pointer to pointers...
own("double*(double)")
! ...expected a number or void before (, got a pointer...
own("void(const double* x, int64_t n)")
! ...signature: expected a type before (, or an array that is out or inout, got
! no result in void(const double* x, int64_t n)...
own("void eraRx(double phi, double r[3][3])")
! ...f: signature: expected before a pointer without const, in (an operand, of
! which it gets a copy), out (a result, of which it reads nothing), inout (an
! operand that it makes a result of), scratch (memory to work in), status (0, or
! what is wrong) or const, got double r[3][3] in void(double phi, double
! r[3][3])...
own("void(out double* x, scratch double* w, int64_t n)")
! ...expected at least one operand, got none in void(out double* x, scratch
! double* w, int64_t n); an operand is const, in or inout: out double* x...
own("double(void)")
! ...expected at least one operand, got none in double(void)...
own("double(double x, double x)")
! ...expected a name for each parameter, got two x in...
own("double(const double x[2 *])")
! ...expected the axes of an array, such as a[m][n], or a(m,n) in Fortran's
! order, got [2*] in...
own("double(const double x[f(2)])")
! ...expected the axes of an array, such as a[m][n], or a(m,n)...
own("double(const double x[max(n)])")
! ...expected the axes of an array, such as a[m][n], or a(m,n)...
own("void(const out double x[3])")
! ...expected one of in, out, inout, scratch, status, before const and the type,
! got 'const out double x' in...
own("void(const double x[3], out inout double y[3])")
! ...before const and the type, got 'inout double y' in...
own("double(const double x[n], scratch double w[2*k])")
! ...f: axes: expected axes that operands have for scratch double w[2*k], got k
! in (n)->()...
own("double(const double x[n], int lda = max(1, m))")
! ...axes: expected axes that operands have for int lda = max(1,m), got m in...
own("void(char uplo, inout double a[n][n])")
! ...expected the value of what is no number, such as char* uplo = 'U', got char
! uplo in...
own("void(char* uplo = U, inout double a[n][n])")
! ...expected a character, 'U', got U in...
own("void(char uplo = 'UL', inout double a[n][n])")
! ...expected a character, 'U', got 'UL' in...
own("void(char* uplo = '', inout double a[n][n])")
! ...expected a character, 'U', got '' in...
own("void(double x = y, inout double a[n][n])")
! ...axes: expected axes that operands have for double x = y, got y in...
own("void(int k = 0.5, inout double a[n][n])")
! ...expected an integer, got 0.5 in...
own("void(int k = '0', inout double a[n][n])")
! ...expected a number, or one of sizes of axes, 2*n, got '0' in...
own("double(double x, out double y)")
! ...expected an array or a pointer that is out, got out double y in...
own("void(const double x[3], out const double y[3])")
! ...expected no const beside out, got out const double y[3] in...
own("status double(const double x[3], out double y[3])")
! ...expected an integer as status, got double in...
own("scratch int(double x)")
! ...expected out, status or no word before (, got scratch in...
own("void(const double x[3], out double y[3], status int e[3])")
! ...expected a pointer to an integer as status, got status int e[3] in...
own("double(const double x[3])", status="nan")
! ...f: status: expected a parameter or a result that is status, got none in
! double(const double x[3])...
own("status int(const double x[3], out double y[3])", status=["", "singular"])
! TypeError: f: status: expected a text, a mapping of integers to texts or
! "nan", got ['', 'singular']...
own("double(const double x[3])", axes="(3)->()")
! ...axes: expected none, as the signature has those of const double x[3], got
! '(3)->()'...
own("void(inout double* x)", axes="(n)->(m)")
! ...axes: expected the same of an operand and its result for inout double* x,
! got (n)->(m)...
own(POINTERS)
! ...axes: expected those of each array, such as const double x[3], a parameter
! int64_t n, the length of all rows, or axes=, as '()->()' for single numbers,
! got none in void(const double* x, out double* y)...
own(POINTERS, axes="(n),(n)->(n)")
! ...axes: expected those of 1 operands and 1 results, as void(const double* x,
! out double* y), got (n),(n)->(n)...
own(POINTERS, axes="(n)->(m)")
! ...axes: expected a reference, or axes of results that operands have, got m in
! (n)->(m)...
own("double(double)", axes="(n)->()")
! ...axes: expected () for a number, got (n), as double(double)...
c_function("double(quad)", OF_NUMBER(abs))
! ...c_function: signature: expected C's numbers (double, float, bool, ...
of_libm(library="libno.so")
! ...library: expected a shared library that the dynamic linker finds, got
! 'libno.so': libno.so: cannot open shared object file: No such file or
! directory; pass its path, or what ctypes.util.find_library says...
of_libm("cosine")
! ...symbol: expected a function that ... exports, got 'cosine'; in C++ declare
! it extern "C"...
of_libm("environ", library="libc.so.6")
! ...c_function: symbol: expected a function that libc.so.6 exports, got
! 'environ', which is a variable...
of_libm("errno", library="libc.so.6")
! ...expected a function that libc.so.6 exports, got 'errno', which is a
! variable...
c_function("double(double)", 1, symbol="cos")
! ...symbol: expected none without library=, got 'cos'...
c_function("double(double)")
! ...function, library: expected one of them, got neither...
c_function("double(double)", np.cos)
! ...function: expected an address, a function pointer of ctypes or cffi, a
! capsule, a cfunc of numba, or library= and symbol=, got <ufunc 'cos'>...
c_function("double(double)", 0)
! ...function: expected an address, got 0...
c_function("double(double)", OF_NUMBER(abs))
! ...name: expected one, as nothing tells that of...
of_libm("tan", name="cosine")
! ...cosine: name: expected one of its own, got that of another function of this
! process, or of the same with another signature: 'cosine'; give it another one,
! name=......
of_libm(attributes={"k": np.int64})
! ...attributes: expected none, as a C function has only operands: a number is
! one, got {'k': <class 'numpy.int64'>}...
of_libm(dtype="f32")
! ...cos: dtype: expected none, as the signature says them, got 'f32'...
of_libm(dtypes="f32")
! ...cos: dtypes: expected none, as the signature says them, got 'f32'...
of_libm(results="f32")
! ...cos: results: expected none, as the signature says them, got 'f32'...
of_libm(kernel_axes="f32")
! ...cos: kernel_axes: expected axes= instead, such as axes='(m,n),(n)->(m)',
! got 'f32'...
of_libm(libraries="f32")
! ...cos: libraries: expected library= instead, with symbol=, got 'f32'...
c_function("double(float)", 1, name="wide", reference=lambda x: x)(ONE)
! TypeError: ...wide: result 0 (result): expected dtype float64, as the handler
! writes it, got float32 (of strings, those of inline have arrays of several
! types)
c_function(SCALE, 1, name="scale2")(X, ONE)
! ValueError: ...operand a: expected batch dimensions [2] as operand x has, got
! []; broadcast a, or make the operation with shared='a'
c_function("double(double, int)", SPECIAL["__pyx_fuse_1xlogy"])
! ...signature: expected double(double, double), which the function says itself,
! got double(double, int)...
c_function("double(double, double)", SPECIAL["__pyx_fuse_0xlogy"])
! ...signature: expected double _Complex(double _Complex, double _Complex),
! which the function says itself, got double(double, double)
c_function("double(double, float)", cython_lapack.__pyx_capi__["dlapy2"])
! ...signature: expected double(double*, double*), which the function says
! itself, got double(double, float)...
of_types(ctypes.c_float, FLOATS, FLOATS, INT)
! ValueError: f: signature: expected float(float*, float*, int), which the
! function says itself, got double(const double* x, const double* w, int64_t n)
! ...
of_types(DOUBLE, DOUBLES, DOUBLES, INT)
! ValueError: f: signature: expected double(double*, double*, int)...
of_types(DOUBLE, DOUBLES, DOUBLES, ctypes.c_size_t)
! ValueError: f: signature: expected double(double*, double*, uint64_t...
of_types(DOUBLE, DOUBLES, DOUBLE, LONG)
! ValueError: f: signature: expected double(double*, double, int64_t)...
of_types(None, DOUBLES, DOUBLES, LONG)
! ValueError: f: signature: expected void(double*, double*, int64_t)...
of_types(DOUBLE)
! ValueError: f: signature: expected double(void)...
of_types(DOUBLE, ndpointer(np.float32), ctypes.c_void_p, LONG)
! ValueError: f: signature: expected double(float*, void*, int64_t)...
of_types(DOUBLE, ctypes.c_void_p, signature="double(double)")
! ValueError: f: signature: expected double(void*)...
of_types(ctypes.c_bool, INT, signature="int(int)")
! ValueError: f: signature: expected bool(int)...
of_types(DOUBLE, Pair)
! ValueError: f: function: argtypes[0]: expected a number, POINTER of a number,
! an ndpointer or c_void_p, which matches any pointer, to compare with ...
of_types(DOUBLE, DOUBLE, ctypes.POINTER(Pair))
! ValueError: f: function: argtypes[1]: expected a number...
of_types(DOUBLE, ctypes.CFUNCTYPE(None))
! ValueError: f: function: argtypes[0]: expected a number...
of_types(DOUBLE, ctypes.c_longdouble)
! ValueError: f: function: argtypes[0]: expected a number...
of_types(DOUBLE, DOUBLE.__ctype_be__)
! ValueError: f: function: argtypes[0]: expected a number...
of_types(DOUBLE, ndpointer(np.complex128))
! ValueError: f: signature: expected double(double _Complex*)...
of_types(DOUBLE, ndpointer(np.clongdouble))
! ValueError: f: function: argtypes[0]: expected a number...
of_types(Pair, DOUBLE)
! ValueError: f: function: restype: expected a number...
"""


# --- Strings, before a compiler is asked: there is none -----------------------


def a_string(decorator, *code, reference=None, **options):
    """The operation of f, whose reference returns its operand."""
    if reference is None:

        def reference(x, *, a=1.0):
            return x

    reference.__name__ = "f"
    return decorator(*code, **options)(reference)


elementwise = functools.partial(
    xla_ffi_kit.elementwise, dtypes="f32", flags=["-O0"]
)
of_rows = functools.partial(
    a_string, functools.partial(xla_ffi_kit.rows, dtypes="f32", flags=["-O0"])
)
elements = functools.partial(a_string, elementwise)
function = functools.partial(
    a_string,
    functools.partial(xla_ffi_kit.inline, kernel_axes=0, flags=["-O0"]),
)
by_kernel = functools.partial(of_rows, derivatives="kernel")


def _pull(x, ct):
    raise AssertionError


STRINGS = r"""
of_rows("", results=None)
! TypeError: f: results: expected a sequence, got None
of_rows("", kernel_axes="1")
! ...: f: kernel_axes: expected a number >= 0 for all operands
! (axes='(),(n)->(n)' tells them apart), got '1'
of_rows("", shared="0")
! ...: f: shared: expected a name of the operands x, got '0'
of_rows("", axes="(n),(n)->(n)")
! ...: f: axes: expected the axes of 1 operands (x), got 2: (n),(n)->(n)
elements("x", flags="-O0")
! TypeError: f: flags: expected a sequence, got '-O0'
elements(["x", "y"])
! ...: f: expressions: expected at least one string of C++, and only strings,
! got [['x', 'y']]
elements()
! ...: f: expressions: expected at least one string of C++, and only strings,
! got []
of_rows("", has_side_effect=True)
! TypeError: f: got an unexpected keyword argument 'has_side_effect'
of_rows("", reference=lambda x, *, default=1: x)
! BuildError: f: attribute default: expected the name of a variable in C++,
! where this is a keyword
of_rows("", reference=lambda A: A)
! BuildError: f: operand A: expected the name of a variable in C++, where this
! is the type to compute in
of_rows("", reference=lambda kit_i: kit_i)
! BuildError: f: operand kit_i: expected the name of a variable in C++, where
! this is the kit's, as all that begins with kit_
of_rows("", results=["y", "y"])
! BuildError: f: result y: expected the name of a variable in C++, where this is
! another parameter
of_rows("", results=["x"])
! BuildError: f: result x: expected the name of a variable in C++, where this is
! another parameter
of_rows("", results=["y) {} //"])
! BuildError: f: result y) {} //: expected the name of a variable in C++, where
! this is no name
of_rows("", shared="x")
! BuildError: f: operands: expected at least one that is not shared, whose rows
! are looped over, got none
of_rows("", reference=lambda x, *, z=1: x, attributes={"z": "c64"})
! BuildError: f: attribute z: expected one of pred, s8, s16, s32, s64, u8, u16,
! u32, u64, f32, f64, got complex64
of_rows("", reference=lambda x, *more: x)
! BuildError: ...expected operands that...
of_rows("", reference=lambda x, w=None: x)
! BuildError: ...expected operands that...
of_rows("", reference=lambda x, **more: x)
! BuildError: f: **more: expected attributes by name, as those of the C++
! function are: *, first, second
function("", function="f();")
! BuildError: ...: function: expected the name of the function in C++, got
! 'f();'; pass it as function=
of_rows("// x\n /* \n*/")
! BuildError: f: body: expected C++ code, got '// x\n /* \n*/'
elements("x", "")
! BuildError: f: expressions[1]: expected C++ code, got ''
elements("x", dtypes="f8")
! BuildError: ...dtypes: expected one of pred, ..., got 'f8', which is float64
! to...
c_function("double(double)", 1, name="none")
! NoCompilerError: none: there is no C++ compiler; install one (...
elements("x", dtypes="float8_e5m2")
! BuildError: ...dtypes: expected one of pred, ..., c64, c128, got float8_e5m2
elements("x", dtypes=np.float32)
! BuildError: ...dtypes: expected a sequence, got <class...
elements("x", dtypes="")
! BuildError: ...dtypes: expected at least one, got none...
elements("x", dtypes="f32,f64")
! BuildError: f: dtypes: expected one for all arrays, such as 'f32 f64', got
! 'float32,float64'; arrays of several dtypes are operands of a template of
! xla_ffi_kit.inline
elements("x", dtypes=["f32,"])
! BuildError: ...dtypes: expected one of pred, ..., got ''
element_types.cpp_attribute("f: attribute a", "i4")
! BuildError: f: attribute a: expected one of pred...
element_types.cpp_attribute("f: attribute a", ("f32", "f32"))
! BuildError: f: attribute a: expected one of pred...
function("void f(kit::In<float> x, double a, kit::Out<float> y) {}")
! NoCompilerError: f: there is no C++ compiler; install one (`apt install g++`,
! or `pip install ziglang`) or set CXX, or pass fallback='reference'
of_rows("out[0] = x[0];", derivatives=True)
! ...derivatives: expected 'reference' or 'kernel', got True
by_kernel("out[0] = x[0];", has_reference=False, fallback="reference")
! ...fallback: expected None, as there is no reference...
"""

# --- What a compiler finds ----------------------------------------------------

SOURCES = pathlib.Path(tempfile.mkdtemp())
(SOURCES / "scale.cc").write_text("""
#include "xla_ffi/strings/kit.h"
void Scale(kit::In<float> x, kit::Out<float> y) { y[0] = 2 * x[0]; }
KIT_DEFINE_HANDLER(ScaleHandler, "x", "", Scale);
""")
(SOURCES / "static.cc").write_text("""
#include "xla/ffi/api/ffi.h"
XLA_FFI_DEFINE_HANDLER(kStatic, [] { return xla::ffi::Error(); },
                       xla::ffi::Ffi::Bind());
""")
(SOURCES / "a.cu").touch()


def library(handlers="ScaleHandler", source="scale.cc", **options):
    if isinstance(handlers, str):
        handlers = {"scale": handlers}
    given = {"sources": [SOURCES / source], "flags": ["-O0"]} | options
    return xla_ffi_kit.build_library(
        handlers=handlers, output=SOURCES / "ops.so", **given
    )


def parameters(of_x="kit::In<float> x", of_a="double a", name="f", **options):
    code = f"void {name}({of_x}, {of_a}, kit::Out<float> y) {{}}"
    return function(code.replace("(, ", "(").replace(", ,", ","), **options)


COMPILED = r"""
function("void f(kit::In<float> x, kit::f16 a, kit::Out<float> y) {}")
! BuildError: f: attribute a: expected one of ...f32, f64, got float16
by_kernel("out[0] = x[0];", dtypes="f32 c64")
! BuildError: f: derivatives="kernel": expected dtypes of real numbers, got
! float, std::complex<float>; leave it out for those, in an operation of their
! own, which has the reference's derivatives, or jvp=
of_rows("out[0] = x[0];", dtypes="c64", lanes=True)
! BuildError: f: lanes=True: expected dtypes of real numbers, got
! std::complex<float>; leave it out for those, in an operation of their own
by_kernel("out[0] = x[0];", jvp=_pull)
! ...derivatives: expected 'reference' beside jvp=, which is the derivative, got
! 'kernel'
by_kernel("out[0] = x[0];", vjp=(_pull, _pull))
! ...derivatives: expected 'reference' beside vjp=, which is the derivative, got
! 'kernel'
by_kernel("out[0] = x[0];", advanced=Advanced(output_layouts={0: (0, 1)}))
! ...derivatives: expected 'reference' beside output_layouts, got 'kernel'
by_kernel("out[0] = x[0];", advanced=Advanced(vmap_method="expand_dims"))
! ...derivatives: expected 'reference' beside vmap_method='expand_dims', got
! 'kernel'
a_string(xla_ffi_kit.inline, "void f(kit::In<float> x, kit::Out<float> y) {}",
         kernel_axes=1, derivatives="kernel")
! ...derivatives: expected a function template and dtypes=, for 'kernel', got a
! function of fixed types
library({})
! BuildError: ops: handlers: expected at least one, got none
library("Absent")
! BuildError: ops: handlers["scale"]: no source defines Absent: define it with
! XLA_FFI_DEFINE_HANDLER_SYMBOL(Absent, ...) or correct the name...
library({"a": {"instantiate": "ScaleHandler"}})
! BuildError: ops: handlers: a: expected the stage execute...
library("kStatic", "static.cc")
! BuildError: ...XLA_FFI_DEFINE_HANDLER_SYMBOL(kStatic, ...) or correct the name
! ...
library(source="absent.cc")
! BuildError: ...there is no file ...absent...
library(source="a.cu")
! BuildError: ...got the CUDA source...
library(flags=["-O0", "-lnotthere"])
! CompilerError: ops: does not compile: ...notthere...
library(sources=["/"])
! BuildError: ops: sources: expected files, got the folder /
library(sources=[])
! BuildError: ops: sources: expected at least one, got none
library(sources="a.cc")
! TypeError: ops: sources: expected a sequence, got 'a.cc'
library(flags="-O0")
! TypeError: ops: flags: expected a sequence, got '-O0'
library(compute_capabilities="90")
! TypeError: ops: compute_capabilities: expected a sequence, got '90'
parameters("const kit::In<float>& x")
! BuildError: f: does not compile: parameters are kit::In<T> for operands,
! kit::Out<T> for results, kit::Threads, and for attributes numbers, bool,
! kit::Array<T> or std::string_view, all by value...
parameters("kit::In<long double> x")
! ...elements are float, double, std::complex of these, kit::bf16, kit::f16,
! bool, int8_t to int64_t or uint8_t to uint64_t...
parameters("")
! ...more or fewer kit::In<T> parameters than the operation has operands...
parameters(of_a="")
! ...more or fewer attribute parameters than the operation has attributes...
function("int f(kit::In<float> x, double a, kit::Out<float>) { return 0; }")
! ...a handler's function returns void, or const char*...
parameters(name="g")
! ...expected a function f(), not a template...
parameters(dtypes="f32")
! ...expected a function template f(), for the `dtypes` float...
function("template <typename T>\n"
         "void f(kit::In<T> x, T a, kit::Out<T> y) {}", dtypes="f32 f64")
! ...the types of attributes do not depend on the template's parameters...
parameters(of_a="float a", attributes={"a": np.float64})
! ...f: attribute a: expected...
function("void g();\n"
         "void f(kit::In<float> x, double, kit::Out<float> y) { g(); }")
! ...undefined reference to `g()'...
function("void f(kit::In<float> x, double, kit::Out<float> y)"
         " { std::vector<float> v; }")
! ...begin the code with #include <vector>
elements("std::vector<T>(1, T(x))[0]")
! ...pass before="#include <vector>"
elements("std::unordered_map<int, T>{{1, T(x)}}[1]")
! ...pass before="#include <unordered_map>"
elements("(assert(x > 0), x)")
! ...pass before="#include <cassert>"
of_rows("out[0] = x[0] > 0 ? x[0] : 0;", dtypes="f16")
! ...write 0.0f for 0, or kit::where(c, x, 0)...
of_rows("out[0] = x[0] > 0 ? 1 : x[0];", dtypes="f16")
! ...write 0.0f for 0, or kit::where(c, x, 0)...
elements("({ if (x > 4) break; x; })")
! BuildError: ...
"""


# --- What does not run in lanes: the line of the code, and the remedy ---------

_BEFORE = """
#include <algorithm>
#include <cstring>
template <typename A>
const A& first(const A* v) { return v[0] + 0; }
template <typename T>
struct unit { static constexpr float v = 2; };
template <>
struct unit<float> { static constexpr float v = 1; };
template <typename A>
__attribute__((noinline)) void fill(A (&d)[400][400], A v) {
  for (auto& row : d) for (auto& cell : row) cell = v += 1;
}"""
NATIVE = {"flags": ["-march=native", "-O1"], "has_reference": False}


def in_lanes(*lines, **options):
    """A number of each row, of these lines."""
    given = NATIVE | {"axes": "(n)->()", "before": _BEFORE} | options
    return of_rows(
        "\n".join(lines),
        lanes=True,
        reference=lambda x: jax.ShapeDtypeStruct(x.shape[:-1], x.dtype),
        **given,
    )


LANES = r"""
in_lanes("A best = x[0];", "if (x[1] > best) best = x[1]; out[0] = best;")
! choose with kit::where(condition, a, b)
in_lanes("out[0] =", "x[int(x[0])];")
! does not become one number, as for an index
in_lanes("float sum = 0;", "sum += x[0]; out[0] = sum;")
! as A, not as float
in_lanes("A v = x[0];", "const void* at = &v; out[0] = at ? v : x[1];")
! its address is no other pointer's than A*
in_lanes("A v[1] = {x[0]}; int b;", "std::memcpy(&b, v, 4); out[0] = b;")
! a number in lanes is one of each row, not the bytes of a float
in_lanes("out[0] =", "0.1 * x[0];")
! write 0.5f or A(0.5)
in_lanes("out[0] = x[1];", "out[0] = std::pow(x[0], 2.5);")
! write 0.5f or A(0.5)
in_lanes("out[0] = x[1];", "out[0] = std::pow(x[0], 2);")
! and A(2) for 2
in_lanes("out[0] =", "kit::where(x[0] > 0 && x[1] > 0, x[0], x[1]);")
! write & and |
in_lanes("out[0] =", "kit::where(x.size() > 1 || x[1] > 0, x[0], x[1]);")
! write & and |
in_lanes("A v = x[0];", "const A& b = std::max(v, x[1]); v = 9; out[0] = b;")
! a copy here
in_lanes("A v = x[0];", "int i = (int&)v; out[0] = i;")
! bytes are not a float's
in_lanes("A v = x[0];", "out[0] = x.size() > 1 ? v : 0.1;")
! is a double
in_lanes("int n = 4;", "A* v = (A*)malloc(4 * n); out[0] = v[0] = x[0];")
! another size than a float
in_lanes("A v = x[0];", "out[0] = std::clamp(v, A(0), A(1));")
! write std::max and std::min of two
in_lanes("A v = 0;", "v += kit::where(x[0] > 0, 1, 0); out[0] = v;")
! write A(1)
in_lanes("A v = x[0];", "static A kept = 0; kept += v; out[0] = kept;")
! outlives a row
in_lanes("const A one = 1;", "constexpr A two = 2; out[0] = two * x[0];")
! write const A
in_lanes("A v = 0;", "if constexpr (sizeof(A) == 4) v = 1; out[0] = v;")
! ask kit::Plain<A>, the type of its values
in_lanes("A v = x[0];", "union { A f; int i; } u; u.f = v; out[0] = u.i;")
! whose bytes are not a float's
in_lanes("A v[1] = {x[0]};", "out[0] = unit<A>::v * v[0];")
! take kit::Plain<A> as the arg
"""

# Of what is wrong in a helper, the helper's line is named, and of too many
# arrays the function's end.
LANES_ELSEWHERE = r"""
in_lanes("A v[1] = {x[0]};", "out[0] = first(v);")
! lanes=True: ...return it by value, as auto...or leave lanes=True out
in_lanes("A d[400][400];", "fill(d, x[0]);", "out[0] = d[399][399];")
! lanes=True: ...make them a std::vector<A>...or leave lanes=True out
in_lanes("out[0] = 1;", before="template <class N>\nN tanh(N v) { return v; }")
! :2: `...rename it...
in_lanes("out[0] = 1;", before="int sign(...) { return 2; }\n"
         "int sign(float v) { return v < 0; }")
! :2: `...choose within the template...
in_lanes("out[0] = 1;", dtypes="s32")
! got int32_t...
"""

# --- What a string that differentiates itself may not say ---------------------


def slope_of(*lines, function=False):
    """Compiles the derivative; as a value the code is fine."""
    before = "#include <vector>\n#include <cstring>"
    given = {"dtypes": "f32", "derivatives": "kernel", "has_reference": False}
    shape = functools.partial(jax.ShapeDtypeStruct, (2,), "float32")
    code = "\n".join(lines)
    if function:
        code = (
            f"{before}\ntemplate <typename T> void f(kit::In<T> x,\n"
            f"kit::Out<T> out) {{\n{code}\n}}"
        )
        op = a_string(
            functools.partial(xla_ffi_kit.inline, kernel_axes=1),
            code,
            reference=lambda x: shape(),
            **given,
        )
    else:
        op = of_rows(code, before=before, reference=lambda x: shape(), **given)
    x = jnp.ones(2)
    jax.block_until_ready(op(x))
    jax.jit(jax.grad(lambda x: op(x).sum())).lower(x)


SLOPES = r"""
slope_of("", "double y = x[0];", "out[0] = y;")
! 2:...declare it as A instead of double or float
slope_of("const auto square = [](const A& v) {", "if (v > 0) return 2 * v;",
         "return v * v;", "};", "out[0] = square(x[0]);")
! 3:...declare variables and results of lambdas as A instead of auto, and write
! A(...) around the branches of `?:`
slope_of("const int i = x[0];", "out[0] = x[i];")
! 1:...a number that knows its derivative does not become another: write
! kit::value(x)
slope_of("", "", "out[0] = 1 + sinf(x[0]);")
! 3:...take a function of std:: that docs/derivatives.md lists
slope_of("std::vector<double> y;", "y.push_back(x[0]);", "out[0] = y[0];")
! 2:...make it a container of A instead of double or float
slope_of("float total = 0;", "total += x[0];", "out[0] = total;", function=True)
! 6:...declare it as kit::Accumulate<T> instead of double or float
slope_of("", "std::memcpy(out.data(), x.data(), x.size() * sizeof(float));")
! 2:...a number with slopes is not the bytes of a float; copy with std::copy
slope_of("constexpr A two = 2;", "out[0] = two * x[0];")
! 1:...a number that knows its derivative is no constant of the compiler; write
! const A
"""
QUESTIONS = r"""
by_kernel("A y = x[0];\n*(unsigned*)&y ^= 1u << 31;")
! bytes are not a float's
by_kernel("A y = 1;\nif (sizeof(T) == 8) y = 2;")
! ask kit::Plain<A>
by_kernel("const A a = 1;\nunion { A y; unsigned bits; } z = {a};")
! bytes are not
"""

NO_COMPILER = [*table("string", STRINGS)]
ROWS_OF = [
    *table("definition", SPECS),
    *table("signature", SIGNATURES),
    *table("call", CALLS),
    *table("derivative", DERIVATIVES),
    *table("C", C_FUNCTIONS),
    *table("compiled", COMPILED),
    *table(
        *("lanes", LANES),
        "BuildError: f: ...>:2:...{}...or leave lanes=True out",
    ),
    *table("lanes elsewhere", LANES_ELSEWHERE, "BuildError: f: ...{}"),
    *table(
        *("slopes", SLOPES),
        "BuildError: f.vjp1: does not compile: <...>:{}...",
    ),
    *table(
        *("question", QUESTIONS),
        'BuildError: f: derivatives="kernel": <...>:2: ...{}...',
    ),
]


@pytest.mark.parametrize(("code", "said"), ROWS_OF)
def test_what_is_said(code, said):
    says(code, said)


no_compiler = inline_data.no_compiler


@pytest.mark.parametrize(("code", "said"), NO_COMPILER)
def test_before_a_compiler_is_asked(no_compiler, code, said):
    says(code, said)
