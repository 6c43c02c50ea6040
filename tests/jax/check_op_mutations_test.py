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
from xla_ffi_kit.primitive import lowering
from xla_ffi_kit.testing import CHECKS, Case, CheckError, check_op

jax.config.update("jax_enable_x64", True)

SOURCE = r"""
#include <atomic>
#include "xla_ffi/inline/kit.h"
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
"""
HANDLERS = {name: name for name in re.findall(r"HANDLER\((\w+)", SOURCE)}


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


def in_bfloat16(x):
    total = x[..., 0]
    for i in range(1, x.shape[-1]):
        total = total + x[..., i]
    return total


def first_block(x):
    at = jnp.arange(x.size).reshape(x.shape)
    return jnp.where(at < 4096, 2 * x, 0)


ROW = Case("float32[5]")
ROWS = Case("float32[5]", "float32[5]")
NUMBER = {"attributes": {"factor": np.float32}}
FLAG = {"attributes": {"both": np.bool_}}

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
}

# What a failure says, by check.
SAID = {
    "auto mesh": "element",
    "attributes": "",
    "empty kernel axis": "kernel axes of 5 elements emptied: ",
    "large batch": "a batch of 840 rows: ",
    "memory of operands": "as that memory changes",
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
)


def operation(library, reference, handler, options):
    given = {"kernel_axes": 1, **options}
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
    monkeypatch.setattr(lowering, "_way", lambda *_: "call", raising=False)
    monkeypatch.setattr(
        lowering.sharding, "divided", lambda ctx, lead: lead, raising=False
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
