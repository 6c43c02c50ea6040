"""kit::groups: which rows of arrays with different axes belong together."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import mesh_of, on, said

import xla_ffi_kit
from xla_ffi_kit import Advanced
from xla_ffi_kit.testing import Case, check_op

jax.config.update("jax_enable_x64", True)

# Each row of a with all rows of x, whose results say which row of a it was.
CODE = """
void numbered(kit::In<float> a, kit::In<float> x, kit::Out<float> y,
              kit::Out<int32_t> number) {
  const auto groups = kit::groups<AXES, 1, 1, 0>(a, x, y, number);
  for (int64_t g = 0; g < groups.size(); ++g) {
    const auto group = groups[g];
    const float* scale = group.first();
    for (const auto& [x_row, y_row, number_at] : group) {
      for (int64_t i = 0; i < y.dim(-1); ++i) y_row[i] = scale[i] * x_row[i];
      *number_at = g;
    }
  }
}"""


def operation(row_axes="1", **options):
    code = CODE.replace("AXES", row_axes)

    @xla_ffi_kit.inline(code, axes="(n),(n)->(n),()", **options)
    def numbered(a, x):
        y = a * x
        return y, jnp.zeros(y.shape[:-1], np.int32)

    return numbered


EXPANDED = Advanced(vmap_method="expand_dims")
A = np.arange(6, dtype=np.float32).reshape(3, 2)
X = np.arange(8, dtype=np.float32).reshape(4, 2)


@pytest.mark.parametrize("a_first", [True, False])
def test_a_row_comes_once_with_all_that_belong_to_it(a_first):
    outer, inner = ((0, None), (None, 0)) if a_first else ((None, 0), (0, None))
    op = jax.vmap(jax.vmap(operation(advanced=EXPANDED), inner), outer)
    y, number = jax.jit(op)(A, X)
    want, of_a = A[:, None] * X, np.arange(3)[:, None] + np.zeros((3, 4))
    if not a_first:
        want, of_a = want.swapaxes(0, 1), of_a.T
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(number, of_a)


@pytest.mark.parametrize("a_first", [True, False])
def test_axes_that_some_arrays_have(a_first):
    middle, inner = (
        ((0, None), (None, 0)) if a_first else ((None, 0), (0, None))
    )
    op = jax.vmap(jax.vmap(operation(advanced=EXPANDED), inner), middle)
    a = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    x = np.arange(30, dtype=np.float32).reshape(3, 5, 2)
    y, number = jax.jit(jax.vmap(op))(a, x)
    want, of_a = a[:, :, None] * x[:, None], np.arange(12).reshape(3, 4, 1)
    of_a = np.broadcast_to(of_a, (3, 4, 5))
    if not a_first:
        want, of_a = want.swapaxes(1, 2), of_a.swapaxes(1, 2)
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(number, of_a)


def test_a_shared_operand_is_one_group():
    op = operation(shared="a")
    y, number = op(A[1], X)
    np.testing.assert_array_equal(y, A[1] * X)
    assert not number.any()
    y, number = jax.jit(jax.vmap(op, (0, None)))(A, X)
    np.testing.assert_array_equal(y, A[:, None] * X)
    batched = operation(shared="a", advanced=Advanced(batches_shared=True))
    y, number = jax.jit(jax.vmap(batched, (0, None)))(A, X)
    np.testing.assert_array_equal(y, A[:, None] * X)
    assert number.tolist() == [[0] * 4, [1] * 4, [2] * 4]


PRODUCT = """
template <typename T>
void product(kit::In<T> a, kit::In<T> x, kit::Out<T> y) {
  for (const auto& group : kit::groups<1, 1, 1>(y, a, x))
    for (const auto& [a_row, x_row] : group)
      for (int64_t i = 0; i < y.columns(); ++i)
        group.first()[i] = a_row[i] * x_row[i];
}"""


@pytest.mark.parametrize(
    "options",
    [{"advanced": EXPANDED}, {"shared": "a"}, {"derivatives": "kernel"}],
    ids=["expand_dims", "shared", "kernel"],
)
def test_the_rows_of_a_result(options):
    @xla_ffi_kit.inline(PRODUCT, dtypes="f32", axes="(n),(n)->(n)", **options)
    def product(a, x):
        return a * x

    check_op(product, [Case("float32[3]", "float32[3]")])


def test_arrays_with_too_few_axes():
    op = operation("2")
    text = said(lambda: jax.block_until_ready(op(A[0], X[0])))
    assert "numbered: groups: expected arrays whose first axes" in text


COUNT = """
void count(kit::In<float> a, kit::In<float> x, kit::Out<int32_t> y) {
  y[0] = kit::groups<0, 0>(a, x).size();
}"""


@pytest.mark.parametrize("sizes", [(3, 4), (4, 3)])
def test_arrays_whose_axes_differ(sizes):
    @xla_ffi_kit.inline(COUNT, axes="(n),(m)->()")
    def count(a, x):
        return jnp.zeros((), np.int32)

    arrays = [np.ones(n, np.float32) for n in sizes]
    text = said(lambda: jax.block_until_ready(count(*arrays)))
    assert "count: groups: expected arrays whose first axes" in text


# Solves of sparse matrices with one pattern: each is factored once for all
# right sides, and says by which factors. The derivative solves, too.
SOLVE = """
#include <vector>
void solve(kit::In<int32_t> i, kit::In<int32_t> j, kit::In<double> a,
           kit::In<double> b, kit::Out<double> x) {
  const int64_t n = b.dim(-1);
  for (const auto& group : kit::groups<1, 1, 1>(a, b, x)) {
    std::vector<double> m(n * n);
    for (int64_t k = 0; k < i.size(); ++k) {
      m[i[k] * n + j[k]] += group.first()[k];
    }
    for (int64_t k = 0; k < n; ++k) {
      for (int64_t r = k + 1; r < n; ++r) {
        const double f = m[r * n + k] /= m[k * n + k];
        for (int64_t c = k + 1; c < n; ++c) m[r * n + c] -= f * m[k * n + c];
      }
    }
    for (const auto& [b_row, y] : group) {
      for (int64_t r = 0; r < n; ++r) {
        y[r] = b_row[r];
        for (int64_t c = 0; c < r; ++c) y[r] -= m[r * n + c] * y[c];
      }
      for (int64_t r = n - 1; r >= 0; --r) {
        for (int64_t c = r + 1; c < n; ++c) y[r] -= m[r * n + c] * y[c];
        y[r] /= m[r * n + r];
      }
    }
  }
}"""


def dense(i, j, a, size):
    # Without a scatter, for which jax 0.8 asks how an Explicit mesh shards it.
    rows, columns = ((k[:, None] == jnp.arange(size)) * 1.0 for k in (i, j))
    return (rows * a[:, None]).T @ columns


def test_shared_operands_beside_expanded_ones():
    @xla_ffi_kit.inline(
        SOLVE,
        axes="(m),(m),(m),(n)->(n)",
        shared="i j",
        has_reference=False,
        solves=lambda x, i, j, a, b: dense(i, j, a, x.shape[-1]) @ x - b,
        advanced=Advanced(
            vmap_method="expand_dims",
            linear_solve=lambda _, b, transposed, x, i, j, a, c: solve(
                *((j, i) if transposed else (i, j)), a, b
            ),
        ),
    )
    def solve(i, j, a, b):
        return jax.ShapeDtypeStruct(b.shape, b.dtype)

    def host(i, j, a, b):
        matrix = np.zeros((b.shape[-1],) * 2)
        np.add.at(matrix, (i, j), a)
        return np.linalg.solve(matrix, b)

    i, j = np.int32([0, 1, 2, 0, 1]), np.int32([0, 1, 2, 1, 2])
    a, b = np.array([4.0, 5, 6, 1, 1]), np.arange(1.0, 4)
    solves = jax.vmap(solve, (None, None, None, 0))
    text = str(jax.make_jaxpr(solves)(i, j, a, np.ones((32, 3))))
    assert "f64[1,5]" in text and "f64[32,5]" not in text
    check_op(solve, [Case(i, j, a, b)], host=host)


def test_shared_operands_of_a_reference_beside_expanded_ones():
    @xla_ffi_kit.inline(
        """
void gather(kit::In<int32_t> index, kit::In<float> a, kit::In<float> x,
            kit::Out<float> y) {
  for (const auto& group : kit::groups<1, 1, 1>(y, a, x))
    for (const auto& [a_row, x_row] : group)
      for (int64_t i = 0; i < y.columns(); ++i)
        group.first()[i] = a_row[i] * x_row[index[i] & 1];
}""",
        axes="(n),(n),(m)->(n)",
        shared="index",
        advanced=EXPANDED,
    )
    def gather(index, a, x):
        return a * x[..., index & 1]

    index = np.int32([1, 0, 1])
    check_op(gather, [Case(index, "float32[3]", "float32[2]")])


# --- Columns ------------------------------------------------------------------


@xla_ffi_kit.inline(
    """
void weigh(kit::In<float> w, kit::In<float> b, kit::In<float> c,
           kit::Out<float> x, kit::Out<int32_t> columns) {
  for (const auto& group : kit::groups<1, 2, 1, 2, 1>(w, b, c, x, columns)) {
    for (const auto& [b_row, c_row, x_row, counts] : group) {
      const int64_t n = x.dim(-2), r = x.dim(-1);
      for (int64_t i = 0; i < n * r; ++i) {
        x_row[i] = group.first()[i / r] * b_row[i] + c_row[i % r];
      }
      for (int64_t i = 0; i < r; ++i) counts[i] = r;
    }
  }
}""",
    axes="(n),(n,r),(r)->(n,r),(r)",
    has_reference=False,
    advanced=Advanced(columns="r"),
)
def weigh(w, b, c):
    """w b + c, and of each column how many the handler got."""
    return (
        jax.ShapeDtypeStruct(b.shape, b.dtype),
        jax.ShapeDtypeStruct(c.shape, np.int32),
    )


W, B, C = A[0] + 2, X.reshape(2, 4), X[0, 0] + np.arange(4, dtype=np.float32)


def plain(w, b, c):
    return w[:, None] * b + c


@pytest.mark.parametrize(
    ("in_axes", "columns"),
    [
        ((None, 0, None), 12),
        ((None, 2, None), 12),
        ((None, 1, 0), 12),
        ((None, None, 1), 12),
        ((0, 0, None), 4),
    ],
)
def test_vmap_makes_columns_more(in_axes, columns):
    operands = [
        x if at is None else np.stack([x, x + 1, x - 3], at)
        for x, at in zip((W, B, C), in_axes, strict=True)
    ]
    x, count = jax.jit(jax.vmap(weigh, in_axes))(*operands)
    np.testing.assert_array_equal(x, jax.vmap(plain, in_axes)(*operands))
    assert np.unique(count) == columns
    assert "more columns r" in weigh.explain()
    twice = [
        x if at is None else np.stack([x, 2 * x])
        for x, at in zip(operands, in_axes, strict=True)
    ]
    outer = [None if at is None else 0 for at in in_axes]
    x, count = jax.vmap(jax.vmap(weigh, in_axes), outer)(*twice)
    want = jax.vmap(jax.vmap(plain, in_axes), outer)(*twice)
    np.testing.assert_array_equal(x, want)
    assert np.unique(count) == (2 * columns if columns == 12 else 4)


def test_columns_that_a_mesh_shards_are_a_batch():
    mesh = mesh_of("Explicit", (4,), ("d",))
    with jax.set_mesh(mesh):
        b = on(mesh, np.stack([B] * 4), "d")
        x, count = jax.jit(jax.vmap(weigh, (None, 0, None)))(W, b, C)
    np.testing.assert_array_equal(x, np.stack([plain(W, B, C)] * 4))
    assert x.sharding.spec[0] == "d" and np.unique(count) == 4


def test_columns_keep_every_transformation():
    @xla_ffi_kit.inline(
        """
void outer(kit::In<float> w, kit::In<float> b, kit::Out<float> x) {
  for (const auto& group : kit::groups<1, 2, 2>(w, b, x))
    for (const auto& [b_row, x_row] : group)
      for (int64_t i = 0; i < x.dim(-2) * x.dim(-1); ++i)
        x_row[i] = group.first()[i / x.dim(-1)] * b_row[i];
}""",
        axes="(n),(n,r)->(n,r)",
        advanced=Advanced(columns="r"),
    )
    def outer(w, b):
        return w[..., None] * b

    check_op(outer, [Case("float32[3]", "float32[3,2]")])


def test_what_columns_are():
    def define(columns, axes="(n),(n,r)->(n,r)"):
        advanced = Advanced(columns=columns)
        return xla_ffi_kit.FfiOp(
            "test.columns", lambda w, b: b, axes=axes, advanced=advanced
        )

    text = "ValueError: test.columns: columns: expected an axis that axes= "
    assert said(define, "k") == f"{text}names once in each result, got 'k'"
    assert said(define, "r", "(n),(n,r)->(n)").startswith(text)
    assert said(define, "r", "(n),(r,r)->(n,r)").startswith(text)
