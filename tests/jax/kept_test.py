"""Objects that strings keep between calls: `kit::Kept` and `kit::PerThread`."""

import concurrent.futures

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import mesh_of, on

import xla_ffi_kit
from xla_ffi_kit.errors import BuildError

FACTORS = """
#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>
#include <vector>

#include "xla_ffi/core/kept.h"

inline std::atomic<int> made{0}, alive{0};

// P a = L U.
struct Factors {
  explicit Factors(kit::Row<const double> a)
      : n(std::lround(std::sqrt(a.size()))),
        number(++made), lu(a.begin(), a.end()), order(n) {
    ++alive;
    for (int64_t i = 0; i < n; ++i) order[i] = i;
    for (int64_t k = 0; k < n; ++k) {
      int64_t best = k;
      for (int64_t i = k; i < n; ++i)
        if (std::abs(lu[i * n + k]) > std::abs(lu[best * n + k])) best = i;
      if (best != k) {
        std::swap_ranges(&lu[k * n], &lu[k * n] + n, &lu[best * n]);
        std::swap(order[k], order[best]);
      }
      for (int64_t i = k + 1; i < n; ++i) {
        const double factor = lu[i * n + k] /= lu[k * n + k];
        for (int64_t j = k + 1; j < n; ++j)
          lu[i * n + j] -= factor * lu[k * n + j];
      }
    }
  }
  ~Factors() { --alive; }

  void Solve(bool transposed, kit::Row<const double> b,
             kit::Row<double> x) const {
    std::vector<double> y(n);
    if (!transposed) {
      for (int64_t i = 0; i < n; ++i) {
        y[i] = b[order[i]];
        for (int64_t j = 0; j < i; ++j) y[i] -= lu[i * n + j] * y[j];
      }
      for (int64_t i = n - 1; i >= 0; --i) {
        for (int64_t j = i + 1; j < n; ++j) y[i] -= lu[i * n + j] * y[j];
        y[i] /= lu[i * n + i];
      }
      std::copy(y.begin(), y.end(), x.begin());
    } else {
      for (int64_t i = 0; i < n; ++i) {
        y[i] = b[i];
        for (int64_t j = 0; j < i; ++j) y[i] -= lu[j * n + i] * y[j];
        y[i] /= lu[i * n + i];
      }
      for (int64_t i = n - 1; i >= 0; --i) {
        for (int64_t j = i + 1; j < n; ++j) y[i] -= lu[j * n + i] * y[j];
        x[order[i]] = y[i];
      }
    }
  }

  const int64_t n;
  const int number;
  std::vector<double> lu;
  std::vector<int64_t> order;
};
"""


def solver(name):
    """A linear solver that keeps factors, and says when they were made.

    Its second result is the number of these factors, 1 for the first ones; its
    third how many there are. Each has a library of its own.
    """

    def equation(x, number, alive, a, b, *, backwards):
        residual = (a.T if backwards else a) @ x - b
        constants = [y - jax.lax.stop_gradient(y) for y in (number, alive)]
        return residual, *constants

    def linear_solve(
        product, b, transposed, x, number, alive, a, _, *, backwards
    ):
        x, *_ = solve(a, b[0], backwards=backwards != transposed)
        return x, *b[1:]

    def solve(a, b, *, backwards=False):
        scalar = jax.ShapeDtypeStruct((), b.dtype)
        return jax.ShapeDtypeStruct(b.shape, b.dtype), scalar, scalar

    solve.__name__ = name
    solve = xla_ffi_kit.rows(
        """
        const kit::Kept<Factors> factors(a);
        factors->Solve(backwards, b, x);
        number[0] = factors->number;
        count[0] = alive;
        """,
        before=FACTORS,
        axes="(n,n),(n)->(n),(),()",
        results="x number count",
        dtypes="f64",
        has_reference=False,
        solves=equation,
        linear_solve=linear_solve,
    )(solve)
    return solve


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def matrices(count, size=5):
    """Different matrices that are far from singular, and right sides."""
    rng = np.random.default_rng(count)
    a = rng.normal(size=(count, size, size)) + 4 * np.eye(size)
    return jnp.asarray(a), jnp.asarray(rng.normal(size=(count, size)))


def loss(solve, a, b):
    return jnp.sum(jnp.sin(solve(a, b)[0]))


def plain(a, b):
    return jnp.sum(jnp.sin(jnp.linalg.solve(a, b)))


def made(solve):
    """How many factors were made before."""
    return int(solve(2 * jnp.eye(3), jnp.ones(3))[1]) - 1


def test_value_and_gradient_factor_once():
    solve = solver("keeps_one")
    (a,), (b,) = matrices(1)
    step = jax.jit(jax.value_and_grad(lambda *ab: loss(solve, *ab), (0, 1)))
    for _ in range(3):
        value, grads = step(a, b)
    want = jax.value_and_grad(plain, (0, 1))(a, b)
    np.testing.assert_allclose(value, want[0], rtol=1e-12)
    for got, expected in zip(grads, want[1], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
    hessian = jax.jit(jax.hessian(lambda b: loss(solve, a, b)))(b)
    want = jax.hessian(lambda b: plain(a, b))(b)
    np.testing.assert_allclose(hessian, want, rtol=1e-10, atol=1e-12)
    assert made(solve) == 1


def test_libraries_keep_apart():
    first, second = solver("keeps_first"), solver("keeps_second")
    (a,), (b,) = matrices(1)
    assert [int(op(a, b)[1]) for op in (first, second, first)] == [1, 1, 1]


def test_what_was_dropped_is_made_again(monkeypatch):
    monkeypatch.setenv("XLA_FFI_KIT_KEPT_COUNT", "2")
    solve = solver("keeps_two")
    a, b = matrices(3)
    numbers = [int(solve(a[i], b[i])[1]) for i in (0, 1, 0, 2, 0, 1)]
    assert numbers == [1, 2, 1, 3, 1, 4]
    np.testing.assert_allclose(a[1] @ solve(a[1], b[1])[0], b[1], atol=1e-12)


def test_vmap_and_four_devices():
    solve = solver("keeps_rows")
    a, b = matrices(8)
    grad = jax.vmap(jax.grad(lambda *ab: loss(solve, *ab), (0, 1)))
    want = jax.vmap(jax.grad(plain, (0, 1)))(a, b)
    mesh = mesh_of("Auto")
    for placed in ((a, b), (on(mesh, a, "d"), on(mesh, b, "d"))):
        got = jax.jit(grad)(*placed)
        for x, y in zip(got, want, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)
    assert made(solve) == 8


def test_threads_that_ask_for_the_same_wait_for_it():
    solve = solver("keeps_for_threads")
    a, b = matrices(2, 60)
    call = jax.jit(solve)
    call(2 * jnp.eye(60), b[0])
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        calls = [pool.submit(call, a[i % 2], b[i % 2]) for i in range(64)]
        found = [future.result() for future in calls]
    for i, (x, number, _) in enumerate(found):
        np.testing.assert_allclose(a[i % 2] @ x, b[i % 2], atol=1e-10)
        assert int(number) in (2, 3)


def test_a_long_loop_keeps_no_more(monkeypatch):
    monkeypatch.setenv("XLA_FFI_KIT_KEPT_BYTES", "1000000")
    solve = solver("keeps_in_loops")
    _, (b,) = matrices(1, 32)

    def step(state, k):
        x, number, count = solve(4 * jnp.eye(32) + k * 1e-3, state)
        return x / jnp.linalg.norm(x), (number, count)

    _, (numbers, counts) = jax.lax.scan(step, b, jnp.arange(1000.0))
    assert int(numbers[-1]) == 1000
    # 8 KiB each, and as much of its key.
    assert int(jnp.max(counts[500:])) <= 1_000_000 // (2 * 8 * 32 * 32) + 1


def test_per_thread():
    @xla_ffi_kit.rows(
        """
        const kit::PerThread<Work> work(x);
        work->Double(x);
        std::copy(work->twice.begin(), work->twice.end(), out.begin());
        """,
        before="""
        #include <algorithm>
        #include <vector>
        #include "xla_ffi/core/kept.h"
        struct Work {
          explicit Work(kit::Row<const double> x) : twice(x.size()) {}
          void Double(kit::Row<const double> x) {
            for (int64_t i = 0; i < x.size(); ++i) twice[i] = 2 * x[i];
          }
          std::vector<double> twice;
        };
        """,
        dtypes="f64",
    )
    def doubles(x):
        return 2 * x

    x = jnp.ones((4000, 64))
    np.testing.assert_array_equal(doubles(x), 2 * x)


def test_a_pointer_is_no_key():
    with pytest.raises(BuildError) as caught:

        @xla_ffi_kit.rows(
            "out[0] = *kit::Kept<First>(x.begin());",
            before="""
            #include "xla_ffi/core/kept.h"
            struct First { explicit First(const double*) {} };
            """,
            dtypes="f64",
        )
        def first(x):
            return x

    assert "a kept object is made of bytes: its key has numbers" in str(
        caught.value
    )
