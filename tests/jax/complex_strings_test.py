"""Complex numbers in strings and files."""

import common  # noqa: F401  four devices
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit import FfiOp
from xla_ffi_kit.testing import Case, check_op

jax.config.update("jax_enable_x64", True)

DTYPES = ("complex64", "complex128")


@xla_ffi_kit.elementwise("scale * x * std::conj(y)", dtypes="c64 c128")
def product(x, y, *, scale=2.0):
    return (scale * x * jnp.conj(y)).astype(x.dtype)


@xla_ffi_kit.rows(
    """
    A state = 0;
    for (int64_t i = 0; i < x.size(); ++i)
      out[i] = state = decay * state * x[i] + std::exp(y[i]);
    """,
    dtypes="c64 c128",
)
def filtered(x, y, *, decay=0.5):
    def step(state, at):
        state = decay * state * at[0] + jnp.exp(at[1])
        return state, state

    start = jnp.zeros_like(x[..., 0])
    moved = jnp.moveaxis(x, -1, 0), jnp.moveaxis(y, -1, 0)
    return jnp.moveaxis(jax.lax.scan(step, start, moved)[1], 0, -1)


@xla_ffi_kit.inline(
    """
    template <typename C, typename R>
    void parts(kit::In<C> z, kit::Out<R> radius, kit::Out<C> unit) {
      for (int64_t i = 0; i < z.size(); ++i) {
        radius[i] = std::abs(z[i]);
        unit[i] = z[i] / radius[i];
      }
    }""",
    dtypes=["c64,f32", "c128,f64"],
    kernel_axes=0,
)
def parts(z):
    return jnp.abs(z), z / jnp.abs(z)


@pytest.mark.parametrize("op", [product, filtered], ids=str)
def test_contract(op):
    cases = [Case(f"{dtype}[2,3]", f"{dtype}[2,3]") for dtype in DTYPES]
    report = check_op(op, cases)
    passed = {row.check for row in report.rows if row.status == "passed"}
    assert {"values", "vmap", "grad", "explicit mesh", "export"} <= passed


def test_numbers_of_two_types():
    check_op(parts, [Case(f"{dtype}[2,3]") for dtype in DTYPES])


def test_a_function_of_one_type():
    @xla_ffi_kit.inline(
        """
        #include <complex>
        void turned(kit::In<std::complex<float>> z,
                    kit::Out<std::complex<float>> y) {
          for (int64_t i = 0; i < z.size(); ++i)
            y[i] = z[i] * std::complex<float>(0, 1);
        }""",
        kernel_axes=0,
    )
    def turned(z):
        return 1j * z

    z = np.complex64([1 + 2j, -3j])
    assert turned(z).tolist() == [-2 + 1j, 3]
    with pytest.raises(TypeError, match="expected dtype complex64"):
        turned(z.astype(np.complex128))


FILE = """
#include <complex>
#include "xla_ffi/strings/kit.h"
template <typename T>
void Conjugate(kit::In<T> x, kit::Out<T> y) {
  for (int64_t i = 0; i < x.size(); ++i) y[i] = std::conj(x[i]);
}
KIT_DEFINE_HANDLER(Handler, "x", "", Conjugate<std::complex<float>>,
                   Conjugate<std::complex<double>>);
"""


def test_a_file(tmp_path):
    source = tmp_path / "conjugate.cc"
    source.write_text(FILE)
    library = xla_ffi_kit.build_library(
        [source], {"test.conjugate": "Handler"}, tmp_path / "conjugate.so"
    )
    op = FfiOp(
        "test.conjugate",
        lambda x: jnp.conj(x),
        kernel_axes=0,
        libraries=library,
    )
    assert library.signature("test.conjugate").operands[0].dtypes == (
        "c64",
        "c128",
    )
    check_op(op, [Case(f"{dtype}[2,3]") for dtype in DTYPES])


def test_gradients_follow_jaxs_conventions():
    """Those of the reference, whose conjugate is JAX's."""
    x, y = np.array([1 + 2j, 3 - 1j]), np.array([2 - 1j, 1j])

    def loss(op):
        return lambda x, y: jnp.abs(op(x, y)).sum()

    got = jax.grad(loss(product), (0, 1))(x, y)
    want = jax.grad(loss(product.reference), (0, 1))(x, y)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    assert np.abs(np.imag(want)).min() > 0.1
