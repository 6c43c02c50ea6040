"""Operations that are defined by an equation: `solves=`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import (
    assert_close,
    collectives,
    failure_of,
    mesh_of,
    on,
    operation,
    said,
)
from jax.flatten_util import ravel_pytree
from jax.sharding import PartitionSpec

import xla_ffi_kit
from xla_ffi_kit import Advanced, FfiOp
from xla_ffi_kit.rules import solves
from xla_ffi_kit.testing import CHECKS, Case, check_op

pytestmark = pytest.mark.usefixtures("x64")


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def like(*operands):
    """The types of results that are like these operands."""
    found = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands)
    return found if len(found) > 1 else found[0]


# --- Five solvers -------------------------------------------------------------

SOLVE = """
#include <algorithm>
#include <cmath>
#include <vector>

// b becomes the solution of a x = b, by Gaussian elimination.
inline void Solve(int64_t n, std::vector<double> a, double* b,
                  int64_t columns) {
  for (int64_t k = 0; k < n; ++k) {
    int64_t best = k;
    for (int64_t i = k; i < n; ++i)
      if (std::abs(a[i * n + k]) > std::abs(a[best * n + k])) best = i;
    std::swap_ranges(&a[k * n], &a[k * n] + n, &a[best * n]);
    if (best != k)
      std::swap_ranges(b + k * columns, b + (k + 1) * columns,
                       b + best * columns);
    for (int64_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const double factor = a[i * n + k] / a[k * n + k];
      for (int64_t j = k; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
      for (int64_t j = 0; j < columns; ++j)
        b[i * columns + j] -= factor * b[k * columns + j];
    }
  }
  for (int64_t k = 0; k < n; ++k)
    for (int64_t j = 0; j < columns; ++j) b[k * columns + j] /= a[k * n + k];
}
"""


@xla_ffi_kit.rows(
    """
    std::copy(b.begin(), b.end(), &x[0]);
    Solve(b.size(), {a.begin(), a.end()}, &x[0], 1);
    """,
    before=SOLVE,
    axes="(n,n),(n)->(n)",
    results="x",
    dtypes="f64",
    has_reference=False,
    solves=lambda x, a, b: a @ x - b,
)
def linear(a, b):
    return like(b)


@xla_ffi_kit.elementwise(
    "Kepler(mean, eccentricity)",
    before="""
    inline double Kepler(double mean, double e) {
      double x = mean;
      for (int i = 0; i < 40; ++i)
        x -= (x - e * std::sin(x) - mean) / (1 - e * std::cos(x));
      return x;
    }
    """,
    dtypes="f64",
    has_reference=False,
    solves=lambda x, mean, e: x - e * jnp.sin(x) - mean,
)
def kepler(mean, eccentricity):
    return like(mean)


@xla_ffi_kit.rows(
    """
    const int64_t n = b.size();
    std::vector<double> old(n * n, 0), pushed(n), back(n), forth(n);
    for (int step = 0; step < 400; ++step) {
      double weight = r;
      for (int64_t i = 0; i < n; ++i) {
        pushed[i] = back[i] = 0;
        for (int64_t j = 0; j < n; ++j) {
          pushed[i] += old[i * n + j] * b[j];
          back[i] += b[j] * old[j * n + i];
        }
        weight += b[i] * pushed[i];
      }
      // a' (old - pushed back' / weight) a + q
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = q[i * n + j];
          for (int64_t k = 0; k < n; ++k)
            for (int64_t l = 0; l < n; ++l)
              sum += a[k * n + i] * a[l * n + j] *
                     (old[k * n + l] - pushed[k] * back[l] / weight);
          x[i * n + j] = sum;
        }
      std::copy(&x[0], &x[0] + n * n, old.begin());
    }
    """,
    before="#include <algorithm>\n#include <vector>",
    axes="(n,n),(n),(n,n)->(n,n)",
    results="x",
    dtypes="f64",
    has_reference=False,
    solves=lambda x, a, b, q, *, r: (
        q
        + a.T @ x @ a
        - a.T @ jnp.outer(x @ b, b @ x) @ a / (r + b @ x @ b)
        - x
    ),
)
def riccati(a, b, q, *, r=1.0):
    return like(a)


@xla_ffi_kit.rows(
    """
    // In the dual, whose only constraints are signs: Hildreth's method.
    const int64_t n = linear.size(), m = bound.size();
    std::vector<double> p(square.begin(), square.end()), solved(n * (m + 1));
    for (int64_t i = 0; i < n; ++i) {
      solved[i * (m + 1) + m] = linear[i];
      for (int64_t k = 0; k < m; ++k) solved[i * (m + 1) + k] = rows[k * n + i];
    }
    Solve(n, p, solved.data(), m + 1);
    std::vector<double> h(m * (m + 1), 0);
    for (int64_t k = 0; k < m; ++k)
      for (int64_t l = 0; l <= m; ++l)
        for (int64_t i = 0; i < n; ++i)
          h[k * (m + 1) + l] += rows[k * n + i] * solved[i * (m + 1) + l];
    for (int64_t k = 0; k < m; ++k) multiplier[k] = 0;
    for (int step = 0; step < 2000; ++step)
      for (int64_t k = 0; k < m; ++k) {
        double slack = bound[k] + h[k * (m + 1) + m];
        for (int64_t l = 0; l < m; ++l)
          slack += h[k * (m + 1) + l] * multiplier[l];
        const double change = slack / h[k * (m + 1) + k];
        multiplier[k] = std::max(0.0, multiplier[k] - change);
      }
    for (int64_t i = 0; i < n; ++i) {
      x[i] = -solved[i * (m + 1) + m];
      for (int64_t k = 0; k < m; ++k)
        x[i] -= solved[i * (m + 1) + k] * multiplier[k];
    }
    """,
    before=SOLVE,
    axes="(n,n),(n),(m,n),(m)->(n),(m)",
    results="x multiplier",
    dtypes="f64",
    has_reference=False,
    # Karush, Kuhn and Tucker: of the active constraints and of the others.
    solves=lambda x, multiplier, square, linear, rows, bound: (
        square @ x + linear + rows.T @ multiplier,
        multiplier * (rows @ x - bound),
    ),
)
def quadratic_program(square, linear, rows, bound):
    """The least x' square x / 2 + linear' x where rows x <= bound."""
    return like(linear, bound)


@xla_ffi_kit.rows(
    """
    const int64_t n = vector.size();
    std::vector<double> next(n);
    for (int64_t i = 0; i < n; ++i) vector[i] = 1;
    for (int step = 0; step < 400; ++step) {
      double norm = 0;
      for (int64_t i = 0; i < n; ++i) {
        next[i] = 0;
        for (int64_t j = 0; j < n; ++j) next[i] += a[i * n + j] * vector[j];
        norm += next[i] * next[i];
      }
      value[0] = std::sqrt(norm);
      for (int64_t i = 0; i < n; ++i) vector[i] = next[i] / value[0];
    }
    """,
    before="#include <cmath>\n#include <vector>",
    axes="(n,n)->(),(n)",
    results="value vector",
    dtypes="f64",
    has_reference=False,
    solves=lambda value, vector, a: (
        vector @ vector - 1,
        a @ vector - value * vector,
    ),
)
def eigenpair(a):
    """The largest eigenvalue and its vector, of length 1."""
    return (
        jax.ShapeDtypeStruct((), a.dtype),
        jax.ShapeDtypeStruct(a.shape[1:], a.dtype),
    )


by_reference = FfiOp(
    "test.by_reference",
    lambda a, b: jnp.linalg.solve(a, b[..., None])[..., 0],
    axes="(n,n),(n)->(n)",
    handlers={},
    solves=lambda x, a, b: a @ x - b,
)


def near(*shape, to=0.0):
    """Different numbers around `to`, the same for each shape."""
    rng = np.random.default_rng(len(shape))
    return to + 0.3 * rng.normal(size=shape)


# Operation, operands, and attributes.
SOLVERS = {
    "linear": (linear, (near(3, 3, to=np.diag([2.0, -1, 3])), near(3)), {}),
    "newton": (kepler, (np.array(1.2), np.array(0.6)), {}),
    "riccati": (riccati, (near(3, 3), near(3, to=1), np.eye(3)), {"r": 2.0}),
    "quadratic": (
        quadratic_program,
        (
            near(3, 3, to=np.diag([2.0, 3, 4])),
            near(3, to=-1),
            near(2, 3),
            near(2),
        ),
        {},
    ),
    "eigenpair": (eigenpair, (near(3, 3, to=np.diag([4.0, 1, 2])),), {}),
}
each_solver = pytest.mark.parametrize("solver", SOLVERS)


def loss_of(solver):
    """A loss of all results and of one vector of all operands, and that."""
    op, operands, attributes = SOLVERS[solver]
    flat, restore = ravel_pytree(operands)

    def loss(flat):
        results = op(*restore(flat), **attributes)
        return sum(jnp.sum(jnp.sin(y)) for y in jax.tree.leaves(results))

    return loss, flat


def differences(f, x):
    """The Jacobian of f by differences of fourth order."""
    step = 1e-3
    moved = jax.vmap(f)
    parts = [
        weight / step * moved(x + count * step * jnp.eye(x.size))
        for count, weight in (
            (-2, 1 / 12),
            (-1, -2 / 3),
            (1, 2 / 3),
            (2, -1 / 12),
        )
    ]
    return sum(parts)


@pytest.mark.parametrize(
    ("solver", "size"),
    [*((solver, 512) for solver in SOLVERS), ("linear", 0), ("eigenpair", 0)],
)
def test_gradients_and_hessians_are_differences(solver, size, monkeypatch):
    monkeypatch.setattr(solves, "_LARGEST_MATRIX", size)
    jax.clear_caches()  # programs of the other size
    loss, x = loss_of(solver)
    slopes = jax.jit(differences, static_argnums=0)(loss, x)
    assert np.max(np.abs(slopes)) > 0.1
    grad = jax.grad(loss)
    for got in (jax.jit(grad)(x), grad(x), jax.jit(jax.jacfwd(loss))(x)):
        np.testing.assert_allclose(got, slopes, rtol=1e-7, atol=1e-8)
    second = jax.jit(differences, static_argnums=0)(grad, x)
    for outer, inner in (
        (jax.jacfwd, jax.grad),
        (jax.jacrev, jax.grad),
        (jax.jacrev, jax.jacfwd),
    ):
        got = jax.jit(outer(inner(loss)))(x)
        np.testing.assert_allclose(got, second, rtol=1e-6, atol=1e-7)


def batch(x, size=4):
    return x + 1e-2 * jnp.arange(size)[:, None] * jnp.cos(jnp.arange(x.size))


@each_solver
def test_vmap_mesh_and_export(solver):
    op, *_ = SOLVERS[solver]
    loss, x = loss_of(solver)
    hessian = jax.hessian(loss)
    grads = jax.jit(jax.vmap(jax.grad(loss)))
    xs = batch(x)
    want = jnp.stack([jax.grad(loss)(x) for x in xs])
    np.testing.assert_allclose(grads(xs), want, rtol=1e-10, atol=1e-12)
    seconds = jnp.stack([hessian(x) for x in xs])
    # Of jaxlib 0.8.1, JAX's own solves gather rows on Explicit meshes.
    own = jax.vmap(
        jax.grad(lambda x: jnp.sum(jnp.linalg.solve(jnp.diag(x), x) ** 2))
    )
    for kind in ("Auto", "Explicit"):
        mesh = mesh_of(kind)
        with jax.set_mesh(mesh):
            sharded = on(mesh, xs, "d")
            got = grads(sharded)
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
            assert not got.sharding.is_fully_replicated
            got_by = set(collectives(grads, sharded))
            assert got_by <= set(collectives(own, sharded))
            got = jax.jit(jax.vmap(hessian))(sharded)
            np.testing.assert_allclose(got, seconds, rtol=1e-9, atol=1e-10)
    mesh = mesh_of("Auto")
    way = PartitionSpec("d")
    mapped = jax.shard_map(grads, mesh=mesh, in_specs=way, out_specs=way)
    np.testing.assert_allclose(
        jax.jit(mapped)(xs), want, rtol=1e-10, atol=1e-12
    )
    checks = xla_ffi_kit.export_checks(op)
    blob = jax.export.export(grads, disabled_checks=checks)(xs).serialize()
    got = jax.export.deserialize(blob).call(xs)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("op", [linear, by_reference], ids=str)
def test_operands_that_an_explicit_mesh_shards_otherwise(op):
    """One operand has no batch axis, or has it on all devices."""
    a, b = near(4, 3, 3, to=np.diag([2.0, -1, 3])), near(4, 3)

    def loss(a, b, axes):
        return jnp.sum(jnp.sin(jax.vmap(op, axes)(a, b)))

    grad = jax.jit(jax.grad(loss, (0, 1)), static_argnums=2)
    mesh = mesh_of("Explicit", (4,), ("d",))
    for axes, left, right in (((None, 0), a[0], b), ((0, None), a, b[0])):
        want = grad(left, right, axes)
        with jax.set_mesh(mesh):
            got = grad(
                on(mesh, left, *["d"][: axes[0] == 0]),
                on(mesh, right, *["d"][: axes[1] == 0]),
                axes,
            )
        assert_close(got, want, rtol=1e-10, atol=1e-12)
        assert got[axes.index(0)].sharding.spec[0] == "d"


def test_a_batch_that_is_on_all_devices_beside_one_that_is_not():
    a, b = near(4, 3, 3, to=np.diag([2.0, -1, 3])), near(4, 3)
    grad = jax.jit(jax.grad(lambda a, b: jnp.sum(linear(a, b) ** 2), (0, 1)))
    mesh = mesh_of("Explicit", (4,), ("d",))
    with jax.set_mesh(mesh):
        got = grad(on(mesh, a), on(mesh, b, "d"))
    assert_close(got, grad(a, b), rtol=1e-10, atol=1e-12)


@each_solver
def test_check_op(solver):
    op, operands, attributes = SOLVERS[solver]
    skip = {*CHECKS} - {"memory of results", "batch axes", "vmap", "equation"}
    report = check_op(op, [Case(*operands, **attributes)], skip=skip)
    (row,) = (row for row in report.rows if row.check == "equation")
    assert row.status == "passed"


# --- The linear solve ---------------------------------------------------------


def solver(name, **options):
    """The linear solver without C++, which is the operation's handler."""
    given = {"axes": "(n,n),(n)->(n)", "solves": lambda x, a, b: a @ x - b}
    return FfiOp(
        name,
        results=lambda a, b: like(b),
        handlers={
            "cpu": lambda a, b: jnp.linalg.solve(a, b[..., None])[..., 0]
        },
        **given | options,
    )


by_itself = solver(
    "test.by_itself",
    advanced=Advanced(
        linear_solve=lambda product, b, transposed, x, a, _: by_itself(
            a.T if transposed else a, b
        )
    ),
)
by_cg = solver(
    "test.by_cg",
    advanced=Advanced(
        linear_solve=lambda product, b, *_: jax.scipy.sparse.linalg.cg(
            product, b, tol=1e-14
        )[0]
    ),
)


@pytest.mark.parametrize("op", [by_itself, by_cg], ids=str)
def test_linear_solve(op):
    a, b = near(2, 3, 3, to=np.diag([2.0, 1, 3])), near(2, 3)
    a = a + a.mT

    def derivatives(op):
        def loss(a, b):
            return jnp.sum(jnp.sin(op(a, b)))

        return jax.vmap(jax.value_and_grad(loss, (0, 1)))(a, b), jax.hessian(
            loss, (0, 1)
        )(a, b)

    assert_close(derivatives(op), derivatives(linear), rtol=1e-9, atol=1e-10)
    text = str(jax.make_jaxpr(jax.grad(lambda b: jnp.sum(op(a, b) ** 2)))(b))
    assert " lu[" not in text
    # Its value, and what would be solved forwards and is backwards.
    assert text.count("test.by_itself[") == (3 if op is by_itself else 0)


def test_linear_solve_has_the_types_of_results_and_residual():
    def by_diagonal(product, b, transposed, x, y, c, t, d, s):
        ones = (jnp.ones(1), jnp.ones(3, complex)), (jnp.ones(3, complex), 1.0)
        slopes = product(ones[not transposed])
        assert [v.shape for v in b] == [v.shape for v in slopes]
        if transposed:
            assert [v.shape for v in b] == [(3,), ()]
            return (b[1] / slopes[1]).reshape(1), b[0] / slopes[0]
        assert [v.shape for v in b] == [(1,), (3,)]
        return b[1] / slopes[1], (b[0] / slopes[0])[0]

    def quotients(c, t, d, s):
        return t / c, s / d

    op = FfiOp(
        "test.quotients",
        results=lambda c, t, d, s: (like(t), like(s)),
        axes="(n),(n),(),()->(n),()",
        handlers={"cpu": quotients},
        solves=lambda x, y, c, t, d, s: ((y * d - s)[None], x * c - t),
        advanced=Advanced(linear_solve=by_diagonal),
    )
    c, t = (near(3, to=1) + 1j * near(3, to=k) for k in (2, 3))
    operands, ct = (c, t, 1.5, 2.5), (t[::-1], 0.5)
    assert_close(
        *(jax.vjp(f, *operands)[1](ct) for f in (op, quotients)), rtol=1e-12
    )
    assert_close(
        *(
            jax.jvp(f, operands, operands[:1] * 2 + ct[1:] * 2)
            for f in (op, quotients)
        ),
        rtol=1e-12,
    )


def test_large_systems_converge_or_are_nan():
    shift = operation(
        lambda b: jnp.roll(b, -1, -1),
        "test.shift",
        axes="(n)->(n)",
        kernel_axes=None,
        solves=lambda x, b: jnp.roll(x, 1) - b,
    )
    first = jnp.zeros(600).at[0].set(1.0)
    got = jax.jvp(shift, (first,), (first,))[1]
    assert np.isnan(got).all()  # GMRES is as far as before after 50 products
    diagonal = operation(
        lambda d, b: b / d,
        "test.diagonal",
        axes="(n),(n)->(n)",
        kernel_axes=None,
        solves=lambda x, d, b: d * x - b,
    )
    d = jnp.linspace(1.0, 2.0, 600)
    got = jax.grad(lambda d: jnp.sum(diagonal(d, first + 1)))(d)
    np.testing.assert_allclose(got, -(first + 1) / d**2, rtol=1e-9)


# --- Beside other options -----------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shared": "a"},
        {"advanced": Advanced(vmap_method="sequential")},
        {"advanced": Advanced(vmap_method="expand_dims")},
    ],
    ids=["plain", "shared", "sequential", "expand_dims"],
)
def test_batches(options):
    op = solver(f"test.batches{len(str(options))}", **options)
    a, b = near(2, 3, 3, to=np.diag([2.0, 1, 3])), near(2, 4, 3)

    def loss(op, a, b):
        return jnp.sum(op(a, b) ** 2)

    def both_orders(op, axes, *operands):
        """The gradients of rows, and the rows' gradient."""

        def of_rows(*operands):
            return jnp.sum(jax.vmap(op, axes)(*operands) ** 2)

        of_row = jax.grad(lambda *operands: loss(op, *operands), (0, 1))
        grads = jax.grad(of_rows, (0, 1))
        return jax.vmap(of_row, axes)(*operands), grads(*operands)

    for axes, *operands in (
        ((0, 0), a, b[:, 0]),
        ((None, 0), a[0], b[:, 0]),
        ((0, None), a, b[0, 0]),
    ):
        got = both_orders(op, axes, *operands)
        assert_close(got, both_orders(linear, axes, *operands), rtol=1e-10)
    if options == {"shared": "a"}:
        got = jax.grad(lambda a: loss(op, a, b))(a[0])
        rows = jax.grad(lambda a: loss(linear, a, b))(
            jnp.broadcast_to(a[0], (2, 4, 3, 3))
        )
        np.testing.assert_allclose(got, rows.sum((0, 1)), rtol=1e-10)


def test_optional_operands_and_results_that_are_no_floats():
    op = operation(
        lambda x, y=None, *, k: (
            k * x if y is None else k * x + y,
            jnp.asarray(x > 0, jnp.int32),
        ),
        "test.optional",
        attributes={"k": "f64"},
        solves=lambda z, sign, x, y=None, *, k: (
            z - k * x if y is None else z - k * x - y + 0 * sign
        ),
    )
    x = jnp.array([1.0, -2])
    assert jax.grad(lambda x: jnp.sum(op(x, k=3.0)[0]))(x).tolist() == [3, 3]
    grads = jax.grad(lambda *x: jnp.sum(op(*x, k=3.0)[0]), (0, 1))(x, x)
    assert [g.tolist() for g in grads] == [[3, 3], [1, 1]]


def test_a_reference_of_iterations_has_derivatives_by_the_equation():
    def iterate(x):
        return jax.lax.while_loop(
            lambda state: state[0] < 20,
            lambda state: (state[0] + 1, (state[1] + x / state[1]) / 2),
            (0, x),
        )[1]

    root = operation(iterate, "test.root", solves=lambda y, x: y * y - x)
    for options in ({}, {"implementation": "reference"}):
        f = jax.jit(lambda x, options=options: root(x, **options))
        for second in (jax.grad(jax.grad(f)), jax.jacfwd(jax.grad(f))):
            np.testing.assert_allclose(second(4.0), -1 / 32, rtol=1e-12)
    check_op(root, [Case(np.array([1.0, 2.5]))], skip=["symbolic batch"])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64"])
def test_dtypes(dtype):
    op = operation(
        jnp.sqrt, f"test.sqrt.{dtype}", solves=lambda y, x: y * y - x
    )
    x = jnp.asarray([1.0, 4.0, 0.25], dtype)
    holomorphic = dtype == "complex64"
    slope = jax.vmap(jax.grad(op, holomorphic=holomorphic))
    assert slope(x).dtype == x.dtype
    got = slope(x).astype("complex64" if holomorphic else "float32")
    np.testing.assert_allclose(got, [0.5, 0.25, 1], rtol=1e-2)
    with jax.enable_x64(False):
        assert slope(x).dtype == x.dtype


def test_c_function():
    cbrt = xla_ffi_kit.c_function(
        "double(double x)",
        library="libm.so.6",
        symbol="cbrt",
        name="test.cbrt",
        solves=lambda y, x: y**3 - x,
    )
    np.testing.assert_allclose(jax.hessian(cbrt)(8.0), -1 / 144, rtol=1e-12)
    check_op(cbrt, [Case(np.array([1.0, -2.5]))], host=np.cbrt)


# --- What is said -------------------------------------------------------------


def equation(y, x):
    return y - 2 * x


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"jvp": lambda p, t: (p, t)},
            "ValueError: solves: expected none beside jvp, which is the "
            "derivative, got an equation",
        ),
        (
            {"linear": "x"},
            "ValueError: solves: expected none beside linear, which is the "
            "derivative, got an equation",
        ),
        (
            {"solves": None, "advanced": Advanced(linear_solve=max)},
            "ValueError: linear_solve: expected none without solves=, whose "
            "systems it solves, got one",
        ),
        (
            {"solves": "y - 2 * x"},
            "TypeError: solves: expected a function, got 'y - 2 * x'",
        ),
    ],
)
def test_options_that_contradict(options, message):
    def define():
        operation(lambda x: 2 * x, **{"solves": equation} | options)

    assert said(define, of="test.op") == message


def test_kernel_derivatives_contradict_an_equation():
    def define():
        @xla_ffi_kit.rows(
            "for (int64_t i = 0; i < x.size(); ++i) out[i] = 2 * x[i];",
            dtypes="f64",
            derivatives="kernel",
            solves=equation,
        )
        def twice(x):
            return 2 * x

    assert said(define, of="twice") == (
        "ValueError: solves: expected none beside derivatives='kernel', which "
        "is the derivative, got an equation"
    )


def test_an_equation_of_another_size():
    op = operation(lambda x: 2 * x, solves=lambda y, x: jnp.stack([y, x]))
    assert said(jax.grad(op), 1.0, of="test.op") == (
        "ValueError: solves: expected a residual of 1 real numbers for a row, "
        "as many as its results have, got 2"
    )
    op = operation(lambda x: 2 * x, solves=lambda y: y)
    with pytest.raises(TypeError) as caught:
        jax.grad(op)(1.0)
    assert caught.value.__notes__[0] == (
        "test.op: solves: called for one row, with results float64[] and "
        "operands x float64[]"
    )


@pytest.mark.parametrize(
    ("residual", "got"), [(lambda y, x: y == x, "bool[]"), (print, "None")]
)
def test_an_equation_without_slopes(residual, got):
    op = operation(lambda x: 2 * x, solves=residual)
    assert said(jax.grad(op), 1.0, of="test.op") == (
        f"TypeError: solves: expected a residual of floats, got {got}"
    )


def test_a_linear_solve_of_another_type():
    wrong = Advanced(linear_solve=lambda product, b, *_: b.astype(np.float32))
    op = solver("test.op", advanced=wrong)
    grad = jax.grad(lambda b: op(jnp.eye(2), b)[0])
    assert said(grad, jnp.ones(2), of="test.op") == (
        "TypeError: linear_solve: solution 0: expected float64[2], got "
        "float32[2]"
    )
    op = solver("test.op", advanced=Advanced(linear_solve=lambda product: 0))
    with pytest.raises(TypeError) as caught:
        jax.grad(lambda b: op(jnp.eye(2), b)[0])(jnp.ones(2))
    assert caught.value.__notes__[0] == (
        "test.op: linear_solve: called for one row, with results float64[2] "
        "and operands a float64[2, 2], b float64[2]"
    )


def test_explain():
    op = operation(lambda x: 2 * x, solves=equation)
    assert "by the equation equation, its solves=" in op.explain()
    assert "solved by <lambda>" in by_cg.explain()


def test_check_op_finds_an_equation_that_is_not_solved():
    x = Case(np.array([1.0, -2]))
    op = operation(lambda x: 2.001 * x, solves=equation)
    failure = failure_of(op, x, "equation")
    assert "the residual is 0.00025 of its terms" in failure.message
    op = operation(
        lambda x: 2 * x, solves=lambda y, x: y - 2 * jax.lax.stop_gradient(x)
    )
    failure = failure_of(op, x, "equation")
    assert failure.message.startswith(
        "first slopes along a line and differences: result 0: element [1]: "
    )
    assert "equation" in CHECKS
