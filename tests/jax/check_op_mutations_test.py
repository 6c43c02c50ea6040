"""check_op catches what only unusual calls show, and nothing in their twins.

Each mutation is a right operation with one fault. Values, batches, derivatives
and programs of ordinary numbers do not show it.
"""

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
)

import inline_data  # noqa: F401  a cache of the test's own
import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
HANDLERS = {
    "copy": "KCopy",
    "tires": "KTires",
    "peeks": "KPeeks",
    "sum": "KSum",
    "leaves_empty": "KLeavesEmpty",
    "accumulates": "KAccumulates",
    "add_rows": "KAddRows",
    "add_to": "KAddTo",
    "positive": "KPositive",
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


def in_bfloat16(x):
    total = x[..., 0]
    for i in range(1, x.shape[-1]):
        total = total + x[..., i]
    return total


def first_block(x):
    at = jnp.arange(x.size).reshape(x.shape)
    return jnp.where(at < 4096, 2 * x, 0)


ROW = Case("float32[5]")
NUMBER = {"factor": np.float32}
FLAG = {"both": np.bool_}

# Name -> reference, what runs instead, the case, the check, other options. What
# runs is a handler of the library by name, or a function.
MUTATIONS = {
    "NaN becomes 0": (
        double,
        lambda x: jnp.where(x != x, 0, 2 * x),
        ROW,
        "special values",
        {},
    ),
    "-0.0 becomes 0.0": (
        double,
        lambda x: jnp.where(x == 0, 0, 2 * x),
        ROW,
        "special values",
        {},
    ),
    "wrong beyond 4,096 elements": (
        double,
        first_block,
        ROW,
        "large batch",
        {},
    ),
    "a static that turns wrong after 200 calls": (
        identity,
        "tires",
        ROW,
        "repeatable",
        {},
    ),
    "a read outside of an operand": (
        identity,
        "peeks",
        ROW,
        "memory of operands",
        {},
    ),
    "a read of a result": (
        row_sum,
        "accumulates",
        ROW,
        "memory of operands",
        {},
    ),
    "an attribute ignored for its default": (
        scale,
        lambda x, *, factor: 2 * x,
        ROW,
        "attributes",
        {"attributes": NUMBER},
    ),
    "an attribute ignored for one value": (
        scale,
        lambda x, *, factor: 3 * x,
        Case("float32[5]", factor=3.0),
        "attributes",
        {"attributes": NUMBER},
    ),
    "an attribute that ordinary numbers hide": (
        lambda x, *, eps: x / jnp.sqrt(x * x + eps),
        lambda x, *, eps: x / jnp.sqrt(x * x + 1e-6),
        Case("float32[5]", eps=1e-6),
        "attributes",
        {"attributes": {"eps": np.float32}},
    ),
    "results for one value of an attribute": (
        pair,
        lambda x, *, both: (x, 2 * x),
        ROW,
        "attributes",
        {"attributes": FLAG},
    ),
    "an empty kernel axis": (
        row_sum,
        "leaves_empty",
        ROW,
        "empty kernel axis",
        {},
    ),
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


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_is_caught(name, library):
    reference, handler, case, check, options = MUTATIONS[name]
    op = operation(library, reference, handler, options)
    with pytest.raises(CheckError) as caught:
        check_op(op, [case], skip=set(CHECKS) - {check})
    (row,) = caught.value.report.failures
    assert row.check == check and row.snippet
    assert SAID[check] in row.message
    if name in SNIPPETS:
        scope = {"given": op}
        exec(row.snippet.replace("op = ...", "op = given", 1), scope)
        assert jax.tree.leaves(scope["got"])


# --- Meshes -------------------------------------------------------------------

# Name -> the handler, the reference, the case, the check, other options. They
# are right operations; XLA makes them wrong, if it splits their calls itself.
ON_MESHES = {
    "an alias": (
        "add_to",
        lambda x, y: x + y,
        Case("float32[5]", "float32[5]"),
        "auto mesh",
        {"aliases": {"x": 0}},
    ),
    "a side effect": (
        "copy",
        identity,
        ROW,
        "side effects on meshes",
        {"advanced": Advanced(has_side_effect=True)},
    ),
    "an uneven batch": ("copy", identity, ROW, "uneven batch on meshes", {}),
    "vmap_method='expand_dims'": (
        "add_rows",
        lambda x, y: x + y,
        Case("float32[5]", "float32[5]"),
        "vmap on meshes",
        {"advanced": Advanced(vmap_method="expand_dims")},
    ),
}


@pytest.mark.parametrize("name", ON_MESHES)
def test_what_xla_splits_wrong_is_caught(name, library, monkeypatch):
    monkeypatch.setattr(lowering, "_way", lambda *_: "call", raising=False)
    monkeypatch.setattr(
        lowering.sharding, "divided", lambda ctx, lead: lead, raising=False
    )
    handler, reference, case, check, options = ON_MESHES[name]
    op = operation(library, reference, handler, options)
    with pytest.raises(CheckError) as caught:
        check_op(op, [case], skip=set(CHECKS) - {check})
    (row,) = caught.value.report.failures
    assert row.check == check and row.snippet
    assert SAID[check] in row.message


# --- What is right ------------------------------------------------------------

UNUSUAL = {name for _, _, _, name, _ in MUTATIONS.values()}
UNUSUAL |= {name for _, _, _, name, _ in ON_MESHES.values()}
# XLA leaves out the addition of 0, which makes 0.0 of -0.0.
RIGHT = {
    "sum": ("sum", row_sum, ROW, {}),
    "0.0 where compiled references say -0.0": (
        lambda x: jnp.where(x == 0, 0, x * 0.5),
        lambda x: x * 0.5 + 0,
        ROW,
        {},
    ),
    "results by attribute": (pair, pair, ROW, {"attributes": FLAG}),
    "a handler that refuses": (
        "positive",
        identity,
        Case(np.float32([1, 2])),
        {},
    ),
    **{
        name: (handler, reference, case, options)
        for name, (handler, reference, case, _, options) in ON_MESHES.items()
    },
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_operation_passes(name, library):
    handler, reference, case, options = RIGHT[name]
    op = operation(library, reference, handler, options)
    check_op(op, [case], skip=set(CHECKS) - UNUSUAL)


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
