"""check_op catches what only unusual calls show, and nothing in their twins.

Each mutation is a right operation with one fault. Values, batches, derivatives
and programs of ordinary numbers do not show it.
"""

import re

import inline_data  # noqa: F401  a cache of the test's own
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import failure_of, run_snippet

import xla_ffi_kit
from xla_ffi_kit import Advanced, FfiOp
from xla_ffi_kit.rules import lowering
from xla_ffi_kit.testing import CHECKS, Case, CheckError, check_op, scalar

jax.config.update("jax_enable_x64", True)

SOURCE = r"""
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/strings/kit.h"
using In = kit::In<float>;
using Out = kit::Out<float>;
void Copy(In x, Out y) {
  for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i];
}
void Tires(In x, Out y) {
  static std::atomic<int> calls{0};
  const float wrong = ++calls > 200;
  for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] + wrong;
}
void Peeks(In x, Out y) {
  const float* beyond = &x[0] + x.size();
  for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] + 0 * *beyond;
}
void Sum(In x, Out y) {
  const int64_t n = x.dim(-1);
  for (int64_t i = 0; i < y.size(); ++i) {
    y[i] = 0;
    for (int64_t j = 0; j < n; ++j) y[i] += x[i * n + j];
  }
}
void LeavesEmpty(In x, Out y) {
  if (x.size() > 0) Sum(x, y);
}
void Accumulates(In x, Out y) {
  const int64_t n = x.dim(-1);
  for (int64_t i = 0; i < y.size(); ++i) {
    for (int64_t j = 0; j < n; ++j) y[i] += x[i * n + j];
  }
}
void AddRows(In x, In y, Out z) {  // of which one may be a single row
  const int64_t n = z.dim(-1);
  for (int64_t i = 0; i < z.size(); ++i)
    z[i] = x[x.size() < z.size() ? i % n : i] +
           y[y.size() < z.size() ? i % n : i];
}
const char* Positive(In x, Out y) {
  if (x.size() == 0) return "operand x: expected elements";
  for (const float v : x)
    if (!(v > 0)) return "operand x: expected positive numbers";
  Copy(x, y);
  return nullptr;
}
void AddOrTwice(In x, In y, Out z) {  // wrong if they are one array
  for (int64_t i = 0; i < z.size(); ++i)
    z[i] = &x[0] == &y[0] ? 2 * x[0] : x[i] + y[i];
}
void Remembers(In x, Out y) {  // what it has seen at an address
  static std::mutex lock;
  static std::map<const float*, std::vector<float>> seen;
  std::lock_guard<std::mutex> guard(lock);
  auto& known = seen[&x[0]];
  if (static_cast<int64_t>(known.size()) != x.size())
    known.assign(x.begin(), x.end());
  for (int64_t i = 0; i < x.size(); ++i) y[i] = 2 * known[i];
}
void Take(In x, kit::In<int32_t> at, Out y) {  // of any index
  const float* row = &x[0];
  for (int64_t i = 0; i < y.size(); ++i)
    y[i] = (row + i * x.dim(-1))[at[i]];
}
// XLA packs numbers of 4 bits, two in a byte.
template <int per_byte>
xla::ffi::Error Copy4(xla::ffi::AnyBuffer x,
                      xla::ffi::Result<xla::ffi::AnyBuffer> y) {
  const size_t count = x.element_count();
  std::memcpy(y->untyped_data(), x.untyped_data(),
              (count + per_byte - 1) / per_byte);
  return xla::ffi::Error::Success();
}
void AddTo(In x, In y, Out z) {  // z is x
  for (int64_t i = 0; i < z.size(); ++i) z[i] += y[i];
}
KIT_DEFINE_HANDLER(KCopy, "x", "", Copy);
KIT_DEFINE_HANDLER(KTires, "x", "", Tires);
KIT_DEFINE_HANDLER(KPeeks, "x", "", Peeks);
KIT_DEFINE_HANDLER(KSum, "x", "", Sum);
KIT_DEFINE_HANDLER(KLeavesEmpty, "x", "", LeavesEmpty);
KIT_DEFINE_HANDLER(KAccumulates, "x", "", Accumulates);
KIT_DEFINE_HANDLER(KAddRows, "x y", "", AddRows);
KIT_DEFINE_HANDLER(KPositive, "x", "", Positive);
KIT_DEFINE_HANDLER(KAddTo, "x y", "", AddTo);
KIT_DEFINE_HANDLER(KAddOrTwice, "x y", "", AddOrTwice);
KIT_DEFINE_HANDLER(KRemembers, "x", "", Remembers);
KIT_DEFINE_HANDLER(KTake, "x at", "", Take);
#define DEFINE_COPY_4(name, per_byte)                                    \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, Copy4<per_byte>,                   \
                                xla::ffi::Ffi::Bind()                    \
                                    .Arg<xla::ffi::AnyBuffer>()          \
                                    .Ret<xla::ffi::AnyBuffer>())
DEFINE_COPY_4(KPacked, 2);
DEFINE_COPY_4(KUnpacked, 1);
"""
HANDLERS = {
    name: name for name in re.findall(r"(?:HANDLER|COPY_4)\((K\w+)", SOURCE)
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mutations")
    (folder / "mutations.cc").write_text(SOURCE)
    return xla_ffi_kit.build_library(
        [folder / "mutations.cc"], HANDLERS, folder / "mutations.so"
    )


def identity(x):
    return x


def double(x):
    return 2 * x


def row_sum(x):
    return jnp.sum(x, -1)


def scale(x, *, factor=2.0):
    return factor * x


def pair(x, *, both=True):
    return (x, 2 * x) if both else 3 * x


def in_16_bits(x):
    """A sum that is rounded after each number."""
    rows = jnp.moveaxis(x, -1, 0)
    return jax.lax.scan(
        lambda total, y: (total + y, None), jnp.zeros_like(rows[0]), rows
    )[0]


def softmax_without_maximum(x):
    y = jnp.exp(x)
    return y / jnp.sum(y, -1, keepdims=True)


def difference_of_squares(x):
    return jnp.mean(x * x, -1) - jnp.mean(x, -1) ** 2


def last_of_the_largest(x):
    return x.shape[-1] - 1 - jnp.argmax(x[..., ::-1], -1)


def first_64(x):
    at = jnp.arange(x.shape[-1])
    return jnp.sum(jnp.where(at < 64, x, 0), -1)


def counted_by_16_bits(x):
    row = jnp.arange(x.size // x.shape[-1]).reshape(*x.shape[:-1], 1)
    return jnp.where(row < 2**15, 2 * x, 0)


def take(x, at):
    return jnp.take_along_axis(x, at[..., None], -1, mode="clip")[..., 0]


def pooled(x, *, by="mean"):
    return {"mean": jnp.mean, "max": jnp.max}[by](x, -1)


def weighted(x, *, factor=2.0):
    return factor * x * x


def with_a_vjp(x, *, factor=2.0):
    return weighted(x, factor=factor)


def turned(x):
    """A reference of rows of three, which JAX lets read shorter ones."""
    return jnp.stack([x[..., 1], -x[..., 0], x[..., 2]], -1)


def turned_threes(x):
    return turned(x) + (x.shape[-1] != 3)


def first_block(x):
    at = jnp.arange(x.size).reshape(x.shape)
    return jnp.where(at < 4096, 2 * x, 0)


ROW = Case("float32[5]")
ROWS = Case("float32[5]", "float32[5]")
NUMBER = {"attributes": {"factor": np.float32}}
FLAG = {"attributes": {"both": np.bool_}}
STRING = {"attributes": {"by": str}}
OWN_VJP = {
    "vjp": (
        lambda x, *, factor: (weighted(x, factor=factor), x),
        lambda x, ct, *, factor: (4 * x * ct,),  # right for 2 alone
    )
}

# Name -> the check that fails, the reference, what runs instead (a handler of
# the library by name, or a function), options, and the case if it is not ROW.
MUTATIONS = {
    "NaN becomes 0": (
        "special values",
        *(double, lambda x: jnp.where(x != x, 0, 2 * x)),
    ),
    "-0.0 becomes 0.0": (
        "special values",
        *(double, lambda x: jnp.where(x == 0, 0, 2 * x)),
    ),
    "wrong beyond 4,096 elements": ("large batch", double, first_block),
    "a static that turns wrong after 200 calls": (
        *("repeatable", identity, "KTires"),
    ),
    "a read outside of an operand": (
        *("memory of operands", identity, "KPeeks"),
    ),
    "a read of a result": ("memory of operands", row_sum, "KAccumulates"),
    "an attribute ignored for its default": (
        *("attributes", scale, lambda x, *, factor: 2 * x),
        *(NUMBER, ROW),
    ),
    "an attribute ignored for one value": (
        *("attributes", scale, lambda x, *, factor: 3 * x),
        *(NUMBER, Case("float32[5]", factor=3.0)),
    ),
    "an attribute that ordinary numbers hide": (
        "attributes",
        lambda x, *, eps: x / jnp.sqrt(x * x + eps),
        lambda x, *, eps: x / jnp.sqrt(x * x + 1e-6),
        {"attributes": {"eps": np.float32}},
        Case("float32[5]", eps=1e-6),
    ),
    "results for one value of an attribute": (
        *("attributes", pair, lambda x, *, both: (x, 2 * x)),
        *(FLAG, ROW),
    ),
    "an empty kernel axis": ("empty kernel axis", row_sum, "KLeavesEmpty"),
    # Kinds that people write, of which only unusual operands tell.
    **{
        f"a sum in {dtype}": (
            *("other lengths", row_sum, in_16_bits, {}),
            Case(f"{dtype}[5]"),
        )
        for dtype in ("bfloat16", "float16")
    },
    "an attribute that is wrong if it is negative": (
        *("attributes", scale, lambda x, *, factor: abs(factor) * x),
        *(NUMBER, Case("float32[5]", factor=3.0)),
    ),
    "a softmax without its maximum": (
        *("large values", lambda x: jax.nn.softmax(x)),
        softmax_without_maximum,
    ),
    "a variance by a difference of squares": (
        *("large values", lambda x: jnp.var(x, -1), difference_of_squares),
    ),
    "the last one of ties": (
        *("ties", lambda x: jnp.argmax(x, -1), last_of_the_largest),
    ),
    "integers as floats": (
        *("integers", double, lambda x: jnp.int32(2 * jnp.float32(x)), {}),
        Case("int32[5]"),
    ),
    "a buffer of 64 elements": ("other lengths", row_sum, first_64),
    "rows that 16 bits count": ("large batch", double, counted_by_16_bits),
    "one element a row": (
        "other lengths",
        lambda x: x - jnp.mean(x, -1, keepdims=True),
        lambda x: x - jnp.sum(x, -1, keepdims=True) / max(x.shape[-1], 2),
    ),
    "another value of a string": (
        *("attributes", pooled, lambda x, *, by: jnp.mean(x, -1)),
        *(STRING, ROW),
    ),
    "results by the operands' address": (
        *("memory of operands", double, "KRemembers"),
    ),
    "one array as two operands": (
        *("equal operands", lambda x, y: x + y, "KAddOrTwice", {}, ROWS),
    ),
    "an index out of range": (
        *("integers", take, "KTake", {"axes": "(n),()->()"}),
        Case("float32[5]", np.int32(2)),
    ),
    "numbers of 4 bits, a byte for each": (
        *("memory of results", identity, "KUnpacked", {}, Case("int4[7]")),
    ),
    "a vjp that ignores an attribute": (
        *("attributes", with_a_vjp, weighted, NUMBER | OWN_VJP, ROW),
    ),
}

# What a failure says, by check.
SAID = {
    "auto mesh": "element",
    "attributes": "",
    "empty kernel axis": "kernel axes of 5 elements emptied: ",
    "equal operands": "with one array as several operands: ",
    "integers": "",
    "large batch": "a batch of 32769 rows: ",
    "large values": "with x ",
    "memory of operands": " as ",
    "memory of results": "the handler writes at least 3 bytes behind the 4 ",
    "other lengths": "with rows of ",
    "ties": "with x of ",
    "repeatable": " differs: ",
    "side effects on meshes": "on an Auto mesh, 0 of 2 calls",
    "special values": "with ",
    "uneven batch on meshes": "the handler gets rows of padding",
    "vmap on meshes": "on an Auto mesh: ",
}


# Failures whose snippets run, one of each program.
SNIPPETS = (
    "NaN becomes 0",
    "wrong beyond 4,096 elements",
    "an attribute ignored for its default",
    "an empty kernel axis",
    "a softmax without its maximum",
    "the last one of ties",
    "a buffer of 64 elements",
    "a vjp that ignores an attribute",
)


def operation(library, reference, handler, options):
    given = options if "axes" in options else {"kernel_axes": 1, **options}
    if isinstance(handler, str):
        given |= {"libraries": library}
    given["handlers"] = {"cpu": handler}
    return FfiOp("mutation", reference, **given)


def caught(library, check, reference, handler, options=None, case=ROW):
    op = operation(library, reference, handler, options or {})
    row = failure_of(op, case, check)
    assert SAID[check] in row.message
    return row, op


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_is_caught(name, library):
    row, op = caught(library, *MUTATIONS[name])
    if name in SNIPPETS:
        run_snippet(row, op)


# --- Meshes -------------------------------------------------------------------

# The same of right operations; XLA makes them wrong, if it splits their calls
# itself.
ON_MESHES = {
    "an alias": (
        *("auto mesh", lambda x, y: x + y, "KAddTo"),
        *({"aliases": {"x": 0}}, ROWS),
    ),
    "a side effect": (
        *("side effects on meshes", identity, "KCopy"),
        {"advanced": Advanced(has_side_effect=True)},
    ),
    "an uneven batch": ("uneven batch on meshes", identity, "KCopy"),
    "vmap_method='expand_dims'": (
        *("vmap on meshes", lambda x, y: x + y, "KAddRows"),
        *({"advanced": Advanced(vmap_method="expand_dims")}, ROWS),
    ),
}


@pytest.mark.parametrize("name", ON_MESHES)
def test_what_xla_splits_wrong_is_caught(name, library, monkeypatch):
    monkeypatch.setattr(lowering, "_way", lambda *_: "call")
    monkeypatch.setattr(
        lowering.partitioning, "divided", lambda ctx, lead: lead
    )
    caught(library, *ON_MESHES[name])


# --- What is right ------------------------------------------------------------

UNUSUAL = {check for check, *_ in (MUTATIONS | ON_MESHES).values()}
# XLA leaves out the addition of 0, which makes 0.0 of -0.0.
RIGHT = {
    "sum": (row_sum, "KSum"),
    "0.0 where compiled references say -0.0": (
        lambda x: x * 0.5 + 0,
        lambda x: jnp.where(x == 0, 0, x * 0.5),
    ),
    "results by attribute": (pair, pair, FLAG),
    **{
        f"packed numbers of {dtype}": (
            *(identity, "KPacked", {}, Case(f"{dtype}[3,5]")),
        )
        for dtype in ("int4", "uint4")
    },
    "rows of three elements": (
        *(turned, turned_threes, {}, Case("float32[2,3]")),
    ),
    "a handler that refuses": (
        *(identity, "KPositive", {}, Case(np.float32([1, 2]))),
    ),
    **{name: call for name, (_, *call) in ON_MESHES.items()},
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_operation_passes(name, library):
    def passes(reference, handler, options=None, case=ROW):
        op = operation(library, reference, handler, options or {})
        check_op(op, [case], skip=set(CHECKS) - UNUSUAL)

    passes(*RIGHT[name])


def square(x):
    return x * x


def square_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return x * x, 2 * x * t


def test_strict_modes_are_only_the_operations_affair(library):
    """JAX promotes nothing in what `check_op` computes itself."""
    on_host = FfiOp(
        "mutation.square",
        results=lambda x: x,
        kernel_axes=1,
        handlers={"cpu": square},
        jvp=square_jvp,
    )

    def passes(op, dtype, *checks, **options):
        case = Case(f"{dtype}[5]")
        check_op(op, [case], skip=set(CHECKS) - {*checks}, **options)

    with (
        jax.numpy_dtype_promotion("strict"),
        jax.numpy_rank_promotion("raise"),
    ):
        scalar([jnp.ones(3, dtype) for dtype in ("bfloat16", "float64")])
        passes(operation(library, square, square, {}), "bfloat16", "grad")
        checks = "values", "grad", "large values"
        op = operation(library, square, lambda x: 1 * square(x), {})
        passes(op, "float8_e4m3fn", *checks)
        passes(on_host, "bfloat16", "jvp", host=np.square)


def test_without_a_reference_memory_is_checked(library):
    def like(x):
        return jax.ShapeDtypeStruct(x.shape[:-1], x.dtype)

    given = {"results": like, "kernel_axes": 1, "libraries": library}
    right, wrong = (
        FfiOp(f"mutation.{name}", handlers={"cpu": name}, **given)
        for name in ("KSum", "KAccumulates")
    )
    report = check_op(right, [ROW])
    passed = {row.check for row in report.rows if row.status == "passed"}
    assert {"memory of results", "memory of operands", "handler"} <= passed
    reasons = {row.message for row in report.rows if row.check == "values"}
    assert reasons == {"neither a reference nor host= to compare with"}
    assert (
        "before it writes them"
        in failure_of(wrong, ROW, "memory of operands").message
    )


def test_a_target_that_nobody_registered():
    op = FfiOp("mutation.nowhere", double, kernel_axes=1)
    skip = set(CHECKS) - {"handler"}
    with pytest.raises(CheckError, match='pass skip=\\["handler"\\]'):
        check_op(op, [ROW], skip=skip)
    check_op(op, [ROW], skip=set(CHECKS) - {"values"})  # told
    for handlers in ({}, {"cpu": double}):
        op = FfiOp("mutation.none", double, kernel_axes=1, handlers=handlers)
        report = check_op(op, [ROW], skip=skip)
        assert report.rows[0].status == "skipped"
