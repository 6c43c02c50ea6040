"""Algorithms with queues, stacks and sorts that differentiate themselves.

JAX has none of them, so there is no reference: values are compared with Python,
derivatives with differences.
"""

import functools
import heapq
import os
import tempfile

os.environ["XLA_FFI_KIT_CACHE"] = tempfile.mkdtemp(
    dir=os.environ.get("TEST_TMPDIR")
)
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
)

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import xla_ffi_kit

inline = functools.partial(
    xla_ffi_kit.inline,
    derivatives="kernel",
    has_reference=False,
    dtypes="f64",
    flags=["-O1"],
)


@pytest.fixture(autouse=True)
def _doubles():
    with jax.enable_x64(True):
        yield


@inline(
    """
    #include <functional>
    #include <limits>
    #include <queue>
    #include <vector>

    template <typename T>
    void shortest_path(kit::In<T> cost, kit::Out<T> length) {
      const int64_t height = cost.dim(-2), width = cost.dim(-1);
      using Entry = std::pair<T, int64_t>;
      for (int64_t b = 0; b < length.size(); ++b) {
        const T* const grid = cost.data() + b * height * width;
        std::vector<T> best(height * width,
                            std::numeric_limits<double>::infinity());
        std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
        const auto reach = [&](int64_t at, T so_far) {
          const T path = so_far + grid[at] * grid[at];
          if (path < best[at]) {
            best[at] = path;
            open.push({path, at});
          }
        };
        reach(0, 0);
        while (!open.empty()) {
          const auto [so_far, at] = open.top();
          open.pop();
          if (so_far > best[at]) continue;
          if (at % width > 0) reach(at - 1, so_far);
          if (at % width < width - 1) reach(at + 1, so_far);
          if (at >= width) reach(at - width, so_far);
          if (at < (height - 1) * width) reach(at + width, so_far);
        }
        length[b] = best.back();
      }
    }""",
    axes="(h,w)->()",
)
def shortest_path(cost):
    return jax.ShapeDtypeStruct((), cost.dtype)


def _shortest_path(grid):
    height, width = grid.shape
    best = np.full(grid.shape, np.inf)
    best[0, 0] = grid[0, 0] ** 2
    queue = [(best[0, 0], 0, 0)]
    while queue:
        so_far, y, x = heapq.heappop(queue)
        for i, j in ((y, x - 1), (y, x + 1), (y - 1, x), (y + 1, x)):
            if 0 <= i < height and 0 <= j < width:
                path = so_far + grid[i, j] ** 2
                if path < best[i, j]:
                    best[i, j] = path
                    heapq.heappush(queue, (path, i, j))
    return best[-1, -1]


@inline(
    """
    #include <vector>

    template <typename T>
    struct Block {
      T sum, weight;
      int64_t end;
    };

    template <typename T>
    void isotonic(kit::In<T> x, kit::In<T> weight, kit::Out<T> y) {
      for (int64_t r = 0; r < x.rows(); ++r) {
        std::vector<Block<T>> stack;
        for (int64_t i = 0; i < x.columns(); ++i) {
          const T w = weight.row(r)[i];
          Block<T> block = {x.row(r)[i] * w, w, i + 1};
          while (!stack.empty() && stack.back().sum * block.weight >=
                                       block.sum * stack.back().weight) {
            block.sum += stack.back().sum;
            block.weight += stack.back().weight;
            stack.pop_back();
          }
          stack.push_back(block);
        }
        int64_t i = 0;
        for (const Block<T>& block : stack)
          while (i < block.end) y.row(r)[i++] = block.sum / block.weight;
      }
    }""",
    axes="(n),(n)->(n)",
)
def isotonic(x, weight):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def _isotonic(x, weight):
    """The least of the means to the right of each of those to the left."""
    n = len(x)
    means = np.full((n, n), -np.inf)
    for i in range(n):
        for j in range(i, n):
            part = slice(i, j + 1)
            means[i, j] = np.average(x[part], weights=weight[part])
    return np.array(
        [max(means[i, k:].min() for i in range(k + 1)) for k in range(n)]
    )


@inline(
    """
    #include <algorithm>
    #include <numeric>
    #include <vector>

    template <typename T>
    struct Server {
      T free;
      int32_t number;
    };

    // Customers queue for the server that is free first.
    template <typename T>
    void simulate(kit::In<T> arrival, kit::In<T> service, int64_t servers,
                  kit::Out<T> waiting, kit::Out<int32_t> server) {
      const int64_t n = arrival.columns();
      for (int64_t r = 0; r < arrival.rows(); ++r) {
        std::vector<int64_t> order(n);
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
          return arrival.row(r)[a] < arrival.row(r)[b];
        });
        std::vector<Server<T>> open;
        for (int32_t k = 0; k < servers; ++k) open.push_back({T(0), k});
        for (const int64_t i : order) {
          auto& first = *std::min_element(
              open.begin(), open.end(), [](const auto& a, const auto& b) {
                return a.free < b.free;
              });
          const T begin = std::max(first.free, arrival.row(r)[i]);
          waiting.row(r)[i] = begin - arrival.row(r)[i];
          server.row(r)[i] = first.number;
          first.free = begin + service.row(r)[i] * service.row(r)[i];
        }
      }
    }""",
    axes="(n),(n)->(n),(n)",
)
def simulate(arrival, service, *, servers=2):
    return (
        jax.ShapeDtypeStruct(arrival.shape, arrival.dtype),
        jax.ShapeDtypeStruct(arrival.shape, jnp.int32),
    )


def _simulate(arrival, service, servers=2):
    free, waiting = np.zeros(servers), np.zeros_like(arrival)
    for i in np.argsort(arrival):
        first = np.argmin(free)
        begin = max(free[first], arrival[i])
        waiting[i] = begin - arrival[i]
        free[first] = begin + service[i] ** 2
    return waiting


_RNG = np.random.default_rng(3)
_KINDS = {
    "shortest path": (
        shortest_path,
        _shortest_path,
        [_RNG.uniform(0.5, 2, (4, 3, 5))],
    ),
    "isotonic": (
        isotonic,
        _isotonic,
        [_RNG.normal(size=(4, 9)), _RNG.uniform(0.5, 2, (4, 9))],
    ),
    "simulation": (
        lambda *x: simulate(*x)[0],
        _simulate,
        [_RNG.uniform(0, 5, (4, 8)), _RNG.uniform(0.8, 1.5, (4, 8))],
    ),
}
kinds = pytest.mark.parametrize(
    ("op", "host", "operands"), _KINDS.values(), ids=_KINDS
)


def _loss(op):
    return lambda *x: jnp.sum(jnp.sin(op(*x)))


def _slope(f, operands, along, h=1e-6):
    """The difference of f in a direction."""
    ahead, behind = (
        f(*(x + s * h * v for x, v in zip(operands, along, strict=True)))
        for s in (1, -1)
    )
    return jax.tree.map(lambda a, b: (a - b) / (2 * h), ahead, behind)


@kinds
def test_values_and_first_derivatives(op, host, operands):
    want = np.stack([host(*row) for row in zip(*operands, strict=True)])
    np.testing.assert_allclose(op(*operands), want, rtol=1e-12)
    loss, every = jax.jit(_loss(op)), range(len(operands))
    slopes = jax.jit(jax.grad(loss, every))(*operands)
    along = [_RNG.normal(size=x.shape) for x in operands]
    got = sum(np.sum(s * v) for s, v in zip(slopes, along, strict=True))
    np.testing.assert_allclose(got, _slope(loss, operands, along), rtol=1e-7)
    # Of one row at a time, and of all.
    rows = jax.jit(jax.vmap(jax.grad(loss, every)))(*operands)
    for a, b in zip(slopes, rows, strict=True):
        np.testing.assert_array_equal(a, b)


@kinds
def test_second_derivatives(op, host, operands):
    every, along = range(len(operands)), operands[::-1]
    gradient = jax.jit(jax.grad(_loss(op), every))
    want = _slope(gradient, operands, along)
    pushed = jax.jit(lambda *x: jax.jvp(gradient, x, tuple(along))[1])
    for a, b in zip(pushed(*operands), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)

    def product(*x):
        pairs = zip(gradient(*x), along, strict=True)
        return sum(jnp.sum(s * v) for s, v in pairs)

    pulled = jax.jit(jax.grad(product, every))(*operands)
    for a, b in zip(pulled, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


@kinds
def test_on_two_devices(op, host, operands):
    gradient = jax.jit(jax.grad(_loss(op), range(len(operands))))
    mesh = jax.make_mesh((2,), ("i",), devices=jax.devices()[:2])
    sharding = NamedSharding(mesh, PartitionSpec("i"))
    sharded = [jax.device_put(x, sharding) for x in operands]
    for a, b in zip(gradient(*sharded), gradient(*operands), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.sharding.is_equivalent_to(sharding, a.ndim)
