"""Operations that XLA's own partitioner of batches would make wrong."""

import ctypes
import os
import tempfile

os.environ["XLA_FFI_KIT_CACHE"] = tempfile.mkdtemp(
    dir=os.environ.get("TEST_TMPDIR")
)
# Read when a test first uses JAX.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=8"
)

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from xla_ffi_kit import Advanced, FfiOp, inline, rms_norm


@inline(
    """
    void add_to(kit::In<float> x, kit::In<float> y, kit::Out<float> z) {
      for (int64_t i = 0; i < z.size(); ++i) z[i] += y[i];  // z is x
    }""",
    kernel_axes=1,
    aliases={"x": 0},
)
def add_to(x, y):
    return x + y


# In front of the code of a function that counts its calls: see calls_of.
COUNTS = """
    #include <atomic>
    static std::atomic<long> calls{0};
    extern "C" __attribute__((visibility("default"))) long XlaFfiKit_Calls() {
      return calls;
    }
"""


def calls_of(op):
    """How often an operation's function has been called in this process."""
    return ctypes.CDLL(op.spec.libraries[0].path).XlaFfiKit_Calls()


@inline(
    COUNTS
    + """
    template <typename T>
    void note(kit::In<T> x, kit::Out<T> y) {
      ++calls;
      for (int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
    }""",
    dtypes="f32 f64",
    kernel_axes=1,
    advanced=Advanced(has_side_effect=True),
)
def note(x):
    return 2 * x


@inline(
    """
    void outer(kit::In<float> x, kit::In<float> y, kit::Out<float> z) {
      const int64_t n = z.dim(-1), rows = z.size() / n;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < n; ++i) {
          z[r * n + i] = 2 * x[x.size() == n ? i : r * n + i] +
                         y[y.size() == n ? i : r * n + i];
        }
      }
    }""",
    kernel_axes=1,
    advanced=Advanced(vmap_method="expand_dims"),
)
def outer(x, y):
    return 2 * x + y


@inline(
    """
    void cumulate(kit::In<float> x, kit::Out<float> y) {
      float sum = 0;
      for (int64_t i = 0; i < x.size(); ++i) y[i] = sum += x[i];
    }""",
    kernel_axes=1,
    advanced=Advanced(vmap_method="sequential"),
)
def cumulate(x):
    return jnp.cumsum(x, -1)


@inline(
    """
    const char* of_matrix(kit::In<float> x, kit::In<float> y,
                          kit::Out<float> z) {
      if (x.rank() != 2) return "not a matrix";
      for (int64_t r = 0; r < x.dim(0); ++r) {
        for (int64_t i = 0; i < x.dim(1); ++i) {
          z[r * x.dim(1) + i] = 2 * x[r * x.dim(1) + i] + y[i];
        }
      }
      return nullptr;
    }""",
    axes="(r,n),(n)->(r,n)",
    advanced=Advanced(vmap_method="sequential"),
)
def of_matrix(x, y):
    return 2 * x + y


def by_matrices(x, y):
    """The handler takes one batch axis."""
    return of_matrix(x.reshape(-1, x.shape[-1]), y).reshape(x.shape)


any_batch = FfiOp(
    "test.any_batch",
    lambda x, y: 2 * x + y,
    kernel_axes=1,
    handlers={"cpu": by_matrices},
    shared="y",
)


@inline(
    """
    void scale_and_sum(kit::In<float> x, kit::In<float> w, kit::Out<float> y,
                       kit::Out<float> total) {
      const int64_t n = w.size();
      for (int64_t i = 0; i < n; ++i) total[i] = 0;
      for (int64_t i = 0; i < x.size(); ++i) {
        total[i % n] += y[i] = x[i] * w[i % n];
      }
    }""",
    axes="(n),(n)->(n),(n)",
    shared="w",
    advanced=Advanced(shared_results=1),
)
def scale_and_sum(x, w):
    y = x * w
    return y, jnp.sum(y, tuple(range(x.ndim - 1)))


def sums(x, w):
    """Of all rows, and of each."""
    whole, rows = scale_and_sum(x, w), jax.vmap(scale_and_sum, (0, None))(x, w)
    return whole, rows, scale_and_sum(jnp.sin(x)[:, None], w)[1]


# What XLA pads with is no row of the operand: it would end the process.
@inline(
    """
    void quotient(kit::In<int32_t> x, kit::In<int32_t> y,
                  kit::Out<int32_t> z) {
      for (int64_t i = 0; i < z.size(); ++i) z[i] = x[i] / y[i];
    }""",
    kernel_axes=0,
)
def quotient(x, y):
    return x // y


@inline(
    """
    const char* of_rows(kit::In<float> x, int64_t rows, kit::Out<float> y) {
      if (x.size() != rows * x.dim(-1)) return "not this many rows";
      for (int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
      return nullptr;
    }""",
    kernel_axes=1,
    attributes={"rows": np.int64},
)
def of_rows(x, *, rows):
    return 2 * x


counted_rows = FfiOp(
    "test.of_rows",
    lambda x: 2 * x,
    kernel_axes=1,
    handlers=of_rows.spec.handlers,
    libraries=of_rows.spec.libraries,
    advanced=Advanced(
        shape_attributes=lambda x: {"rows": int(np.prod(x.shape[:-1]))}
    ),
)


@inline(
    """
    void doubled(kit::In<float> x, kit::Out<float> y, kit::Out<uint8_t> w) {
      w[w.size() - 1] = 2;
      for (int64_t i = 0; i < x.size(); ++i) y[i] = w[w.size() - 1] * x[i];
    }""",
    kernel_axes=1,
)
def doubled(x):
    return 2 * x, jnp.zeros(x.shape, np.uint8)


with_workspace = FfiOp(
    "test.workspace",
    lambda x: 2 * x,
    kernel_axes=1,
    handlers=doubled.spec.handlers,
    libraries=doubled.spec.libraries,
    advanced=Advanced(workspace={"cpu": lambda x: 8}, has_side_effect=True),
)


def in_loop(op, x, *operands):
    """Calls an operation three times in a scan."""

    def step(carry, _):
        return op(carry, *operands), None

    return jax.lax.scan(step, x, None, 3)[0]


def everywhere(op):
    """A call, calls in a loop and a gradient, as one program."""

    def program(x, *operands):
        def loss(x):
            return jnp.sum(jnp.sin(op(x, *operands)))

        return op(x, *operands), in_loop(op, x, *operands), jax.grad(loss)(x)

    return program


def uneven(x):
    """Seventeen rows of sixteen: XLA shards them, and pads."""
    return jnp.concatenate([x, x[:1]])


def uneven_program(x):
    rows = uneven(x)
    return quotient(rows, rows), in_loop(quotient, rows, uneven(x // x))


RNG = np.random.default_rng(0)
X, Y = (RNG.normal(size=(16, 4)).astype(np.float32) for _ in range(2))
ROW = X[0]
INTEGERS = np.arange(1, 17, dtype=np.int32)

# A program and its operands; those of sixteen rows are sharded.
PROGRAMS = {
    "alias": (everywhere(add_to), X, Y),
    "alias under vmap": (jax.vmap(add_to), X, Y),
    "side effect": (everywhere(note), X),
    "expand_dims": (everywhere(jax.vmap(outer, (0, None))), X, ROW),
    "sequential": (everywhere(jax.vmap(cumulate)), X),
    "function": (everywhere(any_batch), X, ROW),
    "function of each row": (jax.vmap(any_batch), X[:, None], X),
    "shared": (everywhere(rms_norm), X, ROW),
    "shared result": (jax.grad(lambda w, x: rms_norm(x, w).sum()), ROW, X),
    "sums": (sums, X, ROW),
    "shape attributes": (everywhere(counted_rows), X),
    "workspace": (everywhere(with_workspace), X),
    "uneven": (uneven_program, INTEGERS),
}


def mesh_of(kind, devices=4):
    """Of two axes, but with two devices."""
    shape, names = ((2, devices // 2), ("d", "e"))
    if devices == 2:
        shape, names = (2,), ("d",)
    kinds = (AxisType[kind],) * len(names)
    return jax.make_mesh(shape, names, kinds, devices=jax.devices()[:devices])


def placed(mesh, operands, axes=None):
    rows = P(axes or mesh.axis_names)
    return [
        jax.device_put(x, NamedSharding(mesh, rows if len(x) == 16 else P()))
        for x in operands
    ]


def check(got, program, operands, rtol=2e-5, atol=1e-6):
    want = jax.jit(program)(*operands)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
