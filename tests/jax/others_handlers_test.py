"""Handlers as other people write them: a target for each dtype, one batch axis.

Their library has no table of the kit's and no signature.
"""

import ctypes

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import mesh_of, on, said
from jax import export

import xla_ffi_kit
from xla_ffi_kit import Advanced, FfiOp, HandlerLibrary
from xla_ffi_kit.testing import Case, check_op

jax.config.update("jax_enable_x64", True)

SOURCE = """
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
// y[b, n] = sum of rows[r] * x[b, n] of a matrix of r rows; exactly one b.
template <ffi::DataType T>
ffi::Error Scale(ffi::Buffer<T, 1> rows, ffi::Buffer<T, 2> x,
                 ffi::ResultBuffer<T, 2> y) {
  ffi::NativeType<T> sum{};
  if (rows.element_count() > 0) sum = rows.typed_data()[0];
  for (size_t r = 1; r < rows.element_count(); ++r) {
    sum += rows.typed_data()[r];
  }
  for (size_t i = 0; i < x.element_count(); ++i) {
    y->typed_data()[i] = sum * x.typed_data()[i];
  }
  return ffi::Error::Success();
}
// A comma in a type would end the argument of a macro.
template <ffi::DataType T>
auto Binding() {
  return ffi::Ffi::Bind()
      .template Arg<ffi::Buffer<T, 1>>()
      .template Arg<ffi::Buffer<T, 2>>()
      .template Ret<ffi::Buffer<T, 2>>();
}
#define HANDLER(NAME, T) \\
  XLA_FFI_DEFINE_HANDLER_SYMBOL(NAME, Scale<T>, Binding<T>())
HANDLER(ScaleF32, ffi::F32);
HANDLER(ScaleF64, ffi::F64);
HANDLER(ScaleC128, ffi::C128);
"""
TARGETS = {"f32": "ScaleF32", "f64": "ScaleF64", "c128": "ScaleC128"}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("others")
    (folder / "scale.cc").write_text(SOURCE)
    built = xla_ffi_kit.build_library(
        [folder / "scale.cc"],
        {symbol: symbol for symbol in TARGETS.values()},
        folder / "scale_cpu.so",
    )
    symbols = ctypes.CDLL(built.path)
    return HandlerLibrary.from_capsules(
        {s: jax.ffi.pycapsule(symbols[s]) for s in TARGETS.values()},
        name="scale",
    )


def reference(rows, x):
    return jnp.sum(rows) * x


def operation(library, reference=reference, **options):
    given = {
        "axes": "(r),(n)->(n)",
        "shared": "rows",
        "libraries": library,
        "handlers": {"cpu": TARGETS},
        "advanced": Advanced(one_batch_axis=True),
    }
    return FfiOp("others.scale", reference, **given | options)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 0, 3)])
def test_each_dtype_has_its_target_and_axes_become_one(library, dtype, lead):
    op = operation(library)
    rows = np.arange(1, 4).astype(dtype)
    x = np.arange(np.prod(lead) * 4).reshape(*lead, 4).astype(dtype)
    got = jax.jit(op)(rows, x)
    assert (got.shape, got.dtype) == (x.shape, x.dtype)
    np.testing.assert_array_equal(got, 6 * x)
    if x.size:
        kinds = {"float32": "f32", "float64": "f64", "complex128": "c128"}
        target = TARGETS[kinds[x.dtype.name]]
        text = jax.jit(op).lower(rows, x).as_text()
        assert text.count("stablehlo.custom_call") == 1
        assert f"@{target}(" in text


def test_every_transformation_keeps_it(library):
    check_op(operation(library), [Case("f64[3]", "f64[2,3,4]")])


@pytest.mark.parametrize("lead", [(4, 6), (24,)])
@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_each_device_flattens_its_own_rows(library, kind, lead):
    op = operation(library)
    mesh = mesh_of(kind, (4,), ("d",))
    rows, x = np.arange(1.0, 4), np.arange(96.0).reshape(*lead, 4)
    with jax.set_mesh(mesh):
        placed = on(mesh, x, "d")
        compiled = jax.jit(op).lower(rows, placed).compile()
        got = compiled(rows, placed)
    np.testing.assert_array_equal(got, 6 * x)
    text = compiled.as_text()
    assert "f64[6,4]" in text
    assert "all-gather" not in text


def test_rows_of_any_number_are_exported(library):
    op = operation(library)
    (m, n) = export.symbolic_shape("m, n")
    types = [
        jax.ShapeDtypeStruct((3,), np.float64),
        jax.ShapeDtypeStruct((m, n, 4), np.float64),
    ]
    checks = xla_ffi_kit.export_checks(op)
    exported = export.export(jax.jit(op), disabled_checks=checks)(*types)
    x = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(exported.call(np.arange(1.0, 4), x), 6 * x)


def test_the_report_names_the_targets(library):
    text = operation(library).explain()
    assert "for f64 the handler ScaleF64 of scale" in text
    assert "dtypes" in text and "f32 f64 c128" in text


def test_what_is_refused(library):
    f16 = operation(library)
    assert said(f16, np.ones(3, np.float16), np.ones(4, np.float16)).startswith(
        "TypeError: others.scale: operand rows: expected dtype"
    )
    assert said(operation, library, dtypes=["f32", "f16"]) == (
        "ValueError: others.scale: handlers: cpu: expected a target for "
        "float16, float16, got ['f32', 'f64', 'c128']"
    )
    assert said(operation, library, handlers={"cpu": {"f32": 3}}) == (
        "TypeError: others.scale: handlers: cpu: expected a custom call "
        "target, one for each dtype, or a function, got {'f32': 3}"
    )
    both = Advanced(one_batch_axis=True, batches_shared=True)
    assert said(operation, library, advanced=both) == (
        "ValueError: others.scale: one_batch_axis: expected no batches_shared "
        "beside it, got both"
    )


def test_a_forward_rule_sees_which_tangents_are_zero(library):
    seen = []

    def rule(primals, tangents):
        rows, x = primals
        seen.append([t is None for t in tangents])
        dx = 0 if tangents[1] is None else jnp.sum(rows) * tangents[1]
        dr = 0 if tangents[0] is None else jnp.sum(tangents[0]) * x
        return op(rows, x), dx + dr

    op = operation(
        library,
        jvp=rule,
        advanced=Advanced(one_batch_axis=True, symbolic_zeros=True),
    )
    rows, x = np.arange(1.0, 4), np.arange(8.0).reshape(2, 4)
    of_x = jax.jit(jax.grad(lambda x: op(rows, x).sum()))(x)
    np.testing.assert_array_equal(of_x, np.full_like(x, 6))
    of_rows = jax.grad(lambda rows: op(rows, x).sum())(rows)
    np.testing.assert_array_equal(of_rows, np.full_like(rows, x.sum()))
    assert seen == [[True, False], [False, True]]
