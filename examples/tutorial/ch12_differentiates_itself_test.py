"""Algorithms in C++ that give their own derivatives."""

import os
import tempfile

# What a test compiles is not for the user's own cache.
_cache = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
os.environ["XLA_FFI_KIT_CACHE"] = _cache.name

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import xla_ffi_kit  # noqa: E402
from xla_ffi_kit.errors import BuildError  # noqa: E402
from xla_ffi_kit.testing import Case, check_op  # noqa: E402


@xla_ffi_kit.rows(
    """
    std::vector<A> cost(m.size() + 1, A(INFINITY));
    cost[0] = 0;
    for (int64_t i = 0; i < x.size(); ++i) {
      A diagonal = cost[0];
      cost[0] = INFINITY;
      for (int64_t j = 0; j < m.size(); ++j) {
        const A before = std::min(diagonal, std::min(cost[j], cost[j + 1]));
        diagonal = cost[j + 1];
        cost[j + 1] = before + (x[i] - m[j]) * (x[i] - m[j]);
      }
    }
    distance[0] = cost[m.size()];
    """,
    before="#include <vector>",
    results=["distance"],
    shared="m",
    dtypes="f32 f64",
    derivatives="kernel",
    has_reference=False,
)
def warped_distance(x, m):
    return jax.ShapeDtypeStruct((1,), x.dtype)


@xla_ffi_kit.elementwise(
    "x > 0 ? x : slope * std::expm1(x)",
    dtypes="f32 bf16",
    derivatives="kernel",
)
def elu(x, *, slope=1.0):
    return jnp.where(x > 0, x, slope * jnp.expm1(jnp.minimum(x, 0)))


@xla_ffi_kit.rows(
    "double first = x[0]; out[0] = first * x[1];",
    dtypes="f32",
    derivatives="kernel",
    has_reference=False,
)
def wrong(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def test_a_model_is_fitted():
    rng = np.random.default_rng(0)
    shape = jnp.sin(jnp.linspace(0, 6, 12))
    x = shape + 0.1 * jnp.asarray(rng.normal(size=(20, 12)), jnp.float32)
    m = jnp.zeros(8)
    first = jnp.mean(warped_distance(x, m))

    def loss(m):
        return jnp.mean(warped_distance(x, m))

    for _ in range(50):
        m = m - 0.05 * jax.grad(loss)(m)
    assert loss(m) < first / 5


def test_its_derivatives_are_those_of_the_algorithm():
    x, m = jnp.array([0.1, 0.9, 1.2, -0.3]), jnp.array([0.0, 1.1, -0.2])
    check_grads(warped_distance, (x, m), order=1, rtol=2e-2)


def test_elements():
    print(check_op(elu, [Case("f32[2,3]", slope=0.5)]))
    x = jnp.linspace(-2, 2, 8)
    for order in (jax.grad, lambda f: jax.grad(jax.grad(f))):
        got = jax.vmap(order(elu))(x)
        want = jax.vmap(order(elu.reference))(x)
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_what_has_no_derivative_is_a_sentence():
    with pytest.raises(BuildError, match="declare it as A instead of double"):
        jax.grad(lambda x: wrong(x).sum())(jnp.ones(3))
