"""Python functions as handlers, by numba where there is one.

Bazel's tests have none: there the one test is that the error says so. With
numba (`pip install numba pytest`) all of this file runs.
"""

import importlib.util
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit.testing import Case, check_op

with_numba = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="needs numba"
)


def scale_kernel(x, factor, y):
    if factor < 0:
        raise ValueError("factor")
    for i in range(x.size):
        y[i] = factor * x[i]


def scale_reference(x, *, factor=2.0):
    return factor * x


def test_without_numba_an_error_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(
        xla_ffi_kit.BuildError, match="numba_kernel needs numba"
    ):
        xla_ffi_kit.numba_kernel(scale_kernel, dtypes="f32", kernel_axes=0)


@pytest.fixture(scope="module")
def scale():
    decorate = xla_ffi_kit.numba_kernel(
        scale_kernel, dtypes="f32 f64", kernel_axes=0
    )
    return decorate(scale_reference)


@with_numba
def test_the_contract_of_operations_holds(scale):
    check_op(scale, [Case("float32[2,3]", factor=1.5)])


@with_numba
def test_rows_and_an_array_attribute():
    def kernel_of_rows(x, factors, y):
        for r in range(x.shape[0]):
            for i in range(x.shape[1]):
                value = 0.0
                for factor in factors:
                    value = value * x[r, i] + factor
                y[r, i] = value

    @xla_ffi_kit.numba_kernel(kernel_of_rows, dtypes="f32", kernel_axes=1)
    def polynomial(x, *, factors=(1.0, 2.0)):
        value = jnp.zeros_like(x)
        for factor in factors:
            value = value * x + factor
        return value

    x = np.float32([[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(polynomial(x), x + 2)
    np.testing.assert_array_equal(
        polynomial(x, factors=(1.0, 0.0, 1.0)), x * x + 1
    )


@with_numba
def test_what_it_raises_is_the_calls_error(scale):
    with pytest.raises(
        jax.errors.JaxRuntimeError,
        match="scale_reference: the numba kernel raised an exception",
    ):
        jax.block_until_ready(scale(np.float32(1), factor=-1.0))


@with_numba
def test_it_runs_while_another_thread_holds_the_gil():
    def kernel(x, y):
        for i in range(x.size):
            y[i] = x[i] + 1

    @xla_ffi_kit.numba_kernel(kernel, dtypes="f32", kernel_axes=0)
    def plus(x):
        return x + 1

    run = jax.jit(plus).lower(jnp.ones(3)).compile()
    x = jax.block_until_ready(jnp.ones(3))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(10)  # nobody takes the GIL from this thread
    try:
        y = run(x)
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            pass
        assert y.is_ready()
    finally:
        sys.setswitchinterval(interval)


@with_numba
def test_dtypes_that_numba_has_no_arithmetic_for():
    decorate = xla_ffi_kit.numba_kernel(
        scale_kernel, dtypes="f32 bf16", kernel_axes=0
    )
    with pytest.raises(
        xla_ffi_kit.BuildError, match="expected none of bfloat16"
    ):
        decorate(scale_reference)


@with_numba
def test_a_kernel_that_numba_cannot_compile():
    decorate = xla_ffi_kit.numba_kernel(
        lambda x, factor, y: print(object(), x), dtypes="f32", kernel_axes=0
    )
    with pytest.raises(
        xla_ffi_kit.BuildError, match="numba cannot compile the kernel"
    ):
        decorate(scale_reference)
