"""Ten kernels as strings of C++, each with its form in JAX.

The rows of the first five take the same steps; the others search, branch or
keep stacks and queues. Constants are exact in f32.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import xla_ffi_kit


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel, whose operation is made when it is asked for.

    Attributes:
      name: as the page has it.
      form: what the JAX form is, in words.
      code: that of a row, or of `function`.
      jax: the JAX form of one row: it names operation and operands.
      axes: those of the operands and results of a row.
      operands: makes those of some rows, or of one without an axis of rows,
        from a generator, a shape of rows such as (391,) or (), and a size.
      size: of a row in the benchmark.
      shared: the operands that all rows share.
      value: the JAX form of one row, where one without a gradient is faster.
      lanes: whether the code of a row has no branch on data.
      function: the name of one that loops over rows, for `inline`; without it,
        the code is for `rows`.
      before: what stands before the code of a row.
      scan: the code whose loop is a `kit::scan`; empty without one.
    """

    name: str
    form: str
    code: str
    jax: Callable[..., Any]
    axes: str
    operands: Callable[[np.random.Generator, tuple[int, ...], int], list[Any]]
    size: int = 512
    shared: tuple[str, ...] = ()
    value: Callable[..., Any] | None = None
    lanes: bool = False
    function: str = ""
    before: str = ""
    scan: str = ""

    def operation(self, *, scan: bool = False, **options: Any) -> Any:
        """The operation, without a reference.

        Args:
          scan: whether the loop is a `kit::scan`.
          **options: of `rows` or `inline`; `dtypes` is one.
        """

        @functools.wraps(self.jax)
        def shapes(*operands: Any, **attributes: Any) -> Any:
            row = functools.partial(self.jax, **attributes)
            return jax.eval_shape(row, *operands)

        options |= {
            "axes": self.axes,
            "derivatives": "kernel",
            "has_reference": False,
        }
        if self.shared:
            options["shared"] = self.shared
        if self.function:
            make = functools.partial(xla_ffi_kit.inline, function=self.function)
        else:
            make = functools.partial(xla_ffi_kit.rows, before=self.before)
        code = self.scan if scan else self.code
        return make(code, **options)(shapes)

    def of_rows(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of one row as one of many."""
        names = self.axes.partition("->")[0].count("(")
        alone = len(self.shared)
        along = [0] * (names - alone) + [None] * alone
        return jax.vmap(function, along)


def series(
    random: np.random.Generator, rows: tuple[int, ...], size: int
) -> list[Any]:
    """One operand, of normal numbers."""
    return [random.normal(size=(*rows, size))]


def with_shared(*values: float) -> Callable[..., list[Any]]:
    """Such an operand, and one that all rows share."""
    return lambda *of: [*series(*of), np.array(values)]


class _Loop:
    """The code of a loop over x with variables: plainly, and by kit::scan.

    Args:
      begin: what is before it.
      variables: name -> its parameter of the step.
      step: the code for one step.
      end: what follows.
    """

    def __init__(
        self, begin: str, variables: Mapping[str, str], step: str, end: str = ""
    ) -> None:
        self.plain = (
            f"{begin}for (int64_t i = 0; i < x.size(); ++i) {{{step}}}\n{end}"
        )
        self.scan = (
            f"{begin}kit::scan(x.size(), {', '.join(variables)}, "
            "[&]<typename A>(int64_t i, "
            f"{', '.join(variables.values())}) {{{step}}});\n{end}"
        )


def _numbers(*names: str) -> dict[str, str]:
    return {name: f"A& {name}" for name in names}


def _smoothing(x: Any) -> Any:
    def step(state: Any, value: Any) -> Any:
        state = state + 0.125 * (value - state)
        return state, state

    return lax.scan(step, jnp.zeros((), x.dtype), x)[1]


_SMOOTHING = _Loop(
    "A state = 0;\n",
    _numbers("state"),
    "out[i] = state += 0.125f * (x[i] - state);",
)


def _lotka_volterra(x: Any) -> Any:
    h = 6 / 512

    def slope(u: Any, w: Any) -> Any:
        return 1.5 * u - u * w, u * w - 3 * w

    def step(carry: Any, force: Any) -> Any:
        u, w = carry
        u = u + 0.0078125 * force
        a, b = slope(u, w)
        c, d = slope(u + h / 2 * a, w + h / 2 * b)
        e, f = slope(u + h / 2 * c, w + h / 2 * d)
        p, q = slope(u + h * e, w + h * f)
        u = u + h / 6 * (a + 2 * c + 2 * e + p)
        w = w + h / 6 * (b + 2 * d + 2 * f + q)
        return (u, w), u

    one = jnp.ones((), x.dtype)
    return lax.scan(step, (one, one), x)[1]


_LOTKA_VOLTERRA = _Loop(
    "const float h = 6.0f / 512;\nA u = 1, w = 1;\n",
    _numbers("u", "w"),
    """
  const auto slope = [](A u, A w) {
    return std::pair<A, A>(1.5f * u - u * w, u * w - 3 * w);
  };
  u += 0.0078125f * x[i];
  const auto [a, b] = slope(u, w);
  const auto [c, d] = slope(u + h / 2 * a, w + h / 2 * b);
  const auto [e, f] = slope(u + h / 2 * c, w + h / 2 * d);
  const auto [p, q] = slope(u + h * e, w + h * f);
  u += h / 6 * (a + 2 * c + 2 * e + p);
  w += h / 6 * (b + 2 * d + 2 * f + q);
  out[i] = u;
""",
)


def _hmm(x: Any) -> Any:
    states = jnp.arange(4, dtype=x.dtype)
    # Beside a sum, a product of matrices would be a task of its own.
    moves = (0.125 + 0.5 * jnp.eye(4)).astype(x.dtype)

    def step(carry: Any, value: Any) -> Any:
        alpha, total = carry
        following = jnp.sum(alpha[:, None] * moves, 0)
        following = following * jnp.exp(-0.5 * (value - states) ** 2)
        scale = jnp.sum(following)
        total = total + jnp.log(scale)
        return (following / scale, total), total

    start = jnp.full(4, 0.25, x.dtype), jnp.zeros((), x.dtype)
    return lax.scan(step, start, x)[1]


_HMM = _Loop(
    "A alpha[4] = {0.25f, 0.25f, 0.25f, 0.25f}, total = 0;\n",
    {"alpha": "A (&alpha)[4]", "total": "A& total"},
    """
  const A v = x[i];
  A next[4], scale = 0;
  for (int k = 0; k < 4; ++k) {
    A sum = 0;
    for (int j = 0; j < 4; ++j) sum += alpha[j] * (j == k ? 0.625f : 0.125f);
    const A off = v - k;
    next[k] = sum * std::exp(-0.5f * off * off);
    scale += next[k];
  }
  for (int k = 0; k < 4; ++k) alpha[k] = next[k] / scale;
  out[i] = total += std::log(scale);
""",
)


def _kalman(x: Any, noise: Any) -> Any:
    # Numbers, not matrices of 2 x 2, which take longer.
    def step(carry: Any, seen: Any) -> Any:
        m, n, a, b, c = carry
        m = m + n
        a, b, c = a + 2 * b + c + noise[0], b + c, c + noise[1]
        sum_ = a + noise[2]
        g, h, rest = a / sum_, b / sum_, seen - m
        m, n = m + g * rest, n + h * rest
        return (m, n, a - g * a, b - g * b, c - h * b), m

    zero, one = jnp.zeros((), x.dtype), jnp.ones((), x.dtype)
    return lax.scan(step, (zero, zero, one, zero, one), x)[1]


_KALMAN = _Loop(
    "A m = 0, n = 0, a = 1, b = 0, c = 1;  // means, and {a, b; b, c}\n",
    _numbers("m", "n", "a", "b", "c"),
    """
  m += n;
  a += 2 * b + c + noise[0];
  b += c;
  c += noise[1];
  const A sum = a + noise[2], rest = x[i] - m;
  const A g = a / sum, h = b / sum;
  m += g * rest;
  n += h * rest;
  c -= h * b;
  b -= g * b;
  a -= g * a;
  out[i] = m;
""",
)


def _garch(x: Any, p: Any) -> Any:
    def step(carry: Any, value: Any) -> Any:
        variance, fit = carry
        fit = fit + jnp.log(variance) + value * value / variance
        return (p[0] + p[1] * value * value + p[2] * variance, fit), None

    start = jnp.ones((), x.dtype), jnp.zeros((), x.dtype)
    return -0.5 * lax.scan(step, start, x)[0][1]


_GARCH = _Loop(
    "A variance = 1, fit = 0;\n",
    _numbers("variance", "fit"),
    """
  const A v = x[i], square = v * v;
  fit += std::log(variance) + square / variance;
  variance = p[0] + p[1] * square + p[2] * variance;
""",
    "out[0] = -0.5f * fit;\n",
)


def _spline(x: Any, t: Any, y: Any, s: Any) -> Any:
    # For a few knots, to compare with all is faster than a search.
    found = jnp.searchsorted(t, x, side="right", method="compare_all")
    low = jnp.clip(found - 1, 0, t.size - 2)
    h = t[low + 1] - t[low]
    u = (x - t[low]) / h
    v = 1 - u
    before = (1 + 2 * u) * v * v * y[low] + u * v * v * h * s[low]
    after = (3 - 2 * u) * u * u * y[low + 1] - u * u * v * h * s[low + 1]
    return before + after


_SPLINE = """
for (int64_t i = 0; i < x.size(); ++i) {
  int64_t low = 0, high = t.size() - 1;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (x[i] < t[middle] ? high : low) = middle;
  }
  const A h = t[high] - t[low], u = (x[i] - t[low]) / h, v = 1 - u;
  out[i] = (1 + 2 * u) * v * v * y[low] + u * v * v * h * s[low] +
           (3 - 2 * u) * u * u * y[high] - u * u * v * h * s[high];
}
"""


def _knots(random: Any, rows: Any, size: int) -> list[Any]:
    knots = np.cumsum(random.uniform(0.5, 1.5, 33))
    x = random.uniform(knots[0], knots[-1], (*rows, size))
    return [x, knots, *random.normal(size=(2, 33))]


def _soft_dtw(x: Any, m: Any) -> Any:
    n, k = x.size, m.size
    far = jnp.full(n, 1e6, x.dtype)
    column = jnp.arange(n + k - 1)[:, None] - jnp.arange(n)
    cost = (x - m[jnp.clip(column, 0, k - 1)]) ** 2
    cost = jnp.where((column >= 0) & (column < k), cost, 1e6)

    def shifted(diagonal: Any, first: Any) -> Any:
        return jnp.concatenate([jnp.reshape(first, 1), diagonal[:-1]])

    def step(carry: Any, costs: Any) -> Any:
        before, last, first = carry
        ways = jnp.stack([shifted(before, first), shifted(last, 1e6), last])
        now = costs - jax.nn.logsumexp(-ways, axis=0)
        return (last, now, far[0]), None

    start = far, far, jnp.zeros((), x.dtype)
    return lax.scan(step, start, cost)[0][1][-1]


_SOFT_DTW = """
std::vector<A> line(m.size() + 1, A(1e6f));
line[0] = 0;
for (int64_t i = 0; i < x.size(); ++i) {
  A corner = line[0];
  line[0] = 1e6f;
  for (int64_t j = 0; j < m.size(); ++j) {
    const A left = line[j], up = line[j + 1], d = x[i] - m[j];
    const A low = std::min(corner, std::min(left, up));
    line[j + 1] = d * d + low -
                  std::log(std::exp(low - corner) + std::exp(low - left) +
                           std::exp(low - up));
    corner = up;
  }
}
out[0] = line[m.size()];
"""


def _with_model(random: Any, rows: Any, size: int) -> list[Any]:
    return [*series(random, rows, size), random.normal(size=size)]


def _isotonic(x: Any, weight: Any) -> Any:
    """Pools neighbors on a stack: each step pushes a value or joins two."""
    n = x.size

    def step(state: Any, _: Any) -> Any:
        sums, weights, ends, top, i = state
        one, two = jnp.maximum(top - 1, 0), jnp.maximum(top - 2, 0)
        falls = sums[two] * weights[one] >= sums[one] * weights[two]
        joins, pushes = falls & (top > 1), i < n
        next_ = jnp.minimum(i, n - 1)
        at = jnp.where(joins, two, jnp.where(pushes, top, one))
        w = jnp.where(pushes, weight[next_], weights[one])
        new = jnp.where(pushes, x[next_] * w, sums[one])
        new = jnp.where(joins, sums[one] + sums[two], new)
        w = jnp.where(joins, weights[one] + weights[two], w)
        pushes &= ~joins
        end = jnp.where(joins, ends[one], jnp.where(pushes, i + 1, ends[one]))
        state = (
            sums.at[at].set(new),
            weights.at[at].set(w),
            ends.at[at].set(end),
        )
        return (*state, at + 1, i + pushes), None

    zeros = jnp.zeros(n, x.dtype)
    start = zeros, zeros + 1, jnp.full(n, n), 0, 0
    sums, weights, ends, top, _ = lax.scan(step, start, length=2 * n - 1)[0]
    ends = jnp.where(jnp.arange(n) < top, ends, n)
    block = jnp.searchsorted(ends, jnp.arange(n), side="right")
    return (sums / weights)[block]


_ISOTONIC = """
#include <vector>

template <typename A>
struct Block {
  A sum, weight;
  int64_t end;
};

template <typename T>
void isotonic(kit::In<T> x, kit::In<T> weight, kit::Out<T> y) {
  using A = kit::Accumulate<T>;
  for (int64_t r = 0; r < x.rows(); ++r) {
    std::vector<Block<A>> stack;
    for (int64_t i = 0; i < x.columns(); ++i) {
      const A w = weight.row(r)[i];
      Block<A> block = {x.row(r)[i] * w, w, i + 1};
      while (!stack.empty() && stack.back().sum * block.weight >=
                                   block.sum * stack.back().weight) {
        block.sum += stack.back().sum;
        block.weight += stack.back().weight;
        stack.pop_back();
      }
      stack.push_back(block);
    }
    int64_t i = 0;
    for (const Block<A>& block : stack)
      while (i < block.end) y.row(r)[i++] = T(block.sum / block.weight);
  }
}
"""


def _rising(random: Any, rows: Any, size: int) -> list[Any]:
    x = random.normal(size=(*rows, size)) + np.arange(size) / 64
    return [x, random.uniform(0.5, 2, x.shape)]


def _reached(cost: Any) -> Any:
    """Costs of the cells, of the paths so far, and what makes these better."""
    cost = cost * cost
    best = jnp.full_like(cost, jnp.inf).at[0, 0].set(cost[0, 0])

    def sweep(best: Any) -> Any:
        wide = jnp.pad(best, 1, constant_values=jnp.inf)
        across = jnp.minimum(wide[1:-1, :-2], wide[1:-1, 2:])
        near = jnp.minimum(across, jnp.minimum(wide[:-2, 1:-1], wide[2:, 1:-1]))
        return jnp.minimum(best, near + cost)

    return best, sweep


def _shortest_path(cost: Any) -> Any:
    best, sweep = _reached(cost)
    # Squares are between 1 and 2, so no best path has more cells than that.
    cells = 2 * sum(cost.shape)
    best, _ = lax.scan(lambda b, _: (sweep(b), None), best, length=cells)
    return best[-1, -1]


def _until_nothing_changes(cost: Any) -> Any:
    best, sweep = _reached(cost)
    start = best, jnp.full_like(best, jnp.nan)
    return lax.while_loop(
        lambda state: jnp.any(state[0] != state[1]),
        lambda state: (sweep(state[0]), state[0]),
        start,
    )[0][-1, -1]


_SHORTEST_PATH = """
#include <functional>
#include <limits>
#include <queue>
#include <vector>

template <typename T>
void shortest_path(kit::In<T> cost, kit::Out<T> length) {
  const int64_t height = cost.dim(-2), width = cost.dim(-1);
  using A = kit::Accumulate<T>;
  using Entry = std::pair<A, int64_t>;
  for (int64_t b = 0; b < length.size(); ++b) {
    const T* const grid = cost.data() + b * height * width;
    std::vector<A> best(height * width,
                        std::numeric_limits<double>::infinity());
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
    const auto reach = [&](int64_t at, A so_far) {
      const A step = grid[at], path = so_far + step * step;
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
    length[b] = T(best.back());
  }
}
"""


def _grid(random: Any, rows: Any, size: int) -> list[Any]:
    """As wide as twice its height."""
    height = int((size / 2) ** 0.5)
    return [random.uniform(1, 2**0.5, (*rows, height, size // height))]


def _simulate(arrival: Any, service: Any, *, servers: int = 2) -> Any:
    order = jnp.argsort(arrival)

    def step(free: Any, customer: Any) -> Any:
        arrives, takes = customer
        first = jnp.argmin(free)
        begin = jnp.maximum(free[first], arrives)
        waits = begin - arrives, first.astype(jnp.int32)
        return free.at[first].set(begin + takes * takes), waits

    customers = arrival[order], service[order]
    start = jnp.zeros(servers, arrival.dtype)
    waits, server = lax.scan(step, start, customers)[1]
    back = jnp.argsort(order)
    return waits[back], server[back]


_SIMULATE = """
#include <algorithm>
#include <numeric>
#include <vector>

template <typename A>
struct Server {
  A free;
  int32_t number;
};

// Customers queue for the server that is free first.
template <typename T>
void simulate(kit::In<T> arrival, kit::In<T> service, int64_t servers,
              kit::Out<T> waiting, kit::Out<int32_t> server) {
  using A = kit::Accumulate<T>;
  const int64_t n = arrival.columns();
  for (int64_t r = 0; r < arrival.rows(); ++r) {
    std::vector<int64_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return arrival.row(r)[a] < arrival.row(r)[b];
    });
    std::vector<Server<A>> open;
    for (int32_t k = 0; k < servers; ++k) open.push_back({A(0), k});
    for (const int64_t i : order) {
      auto& first = *std::min_element(
          open.begin(), open.end(),
          [](const auto& a, const auto& b) { return a.free < b.free; });
      const A arrives = arrival.row(r)[i], takes = service.row(r)[i];
      const A begin = std::max(first.free, arrives);
      waiting.row(r)[i] = T(begin - arrives);
      server.row(r)[i] = first.number;
      first.free = begin + takes * takes;
    }
  }
}
"""


def _customers(random: Any, rows: Any, size: int) -> list[Any]:
    # No two at one time, also in f32.
    between = 1 / 64 + random.exponential(0.75, (*rows, size))
    arrival = np.cumsum(between, -1)
    arrival = random.permuted(arrival, axis=-1)
    return [arrival, random.uniform(0.8, 1.5, arrival.shape)]


def _both(name: str, form: str, loop: _Loop, *row: Any, **more: Any) -> Kernel:
    """A kernel of both forms of a loop."""
    return Kernel(
        name, form, loop.plain, *row, lanes=True, scan=loop.scan, **more
    )


@functools.cache
def kernels() -> Mapping[str, Kernel]:
    """All ten by their names, in the page's order."""
    scan, along = "`vmap` of `lax.scan`", "(n)->(n)"
    ten = [
        _both(
            "exponential smoothing", scan, _SMOOTHING, _smoothing, along, series
        ),
        _both(
            "Lotka-Volterra, RK4",
            scan,
            _LOTKA_VOLTERRA,
            _lotka_volterra,
            along,
            series,
        ),
        _both("HMM, 4 states", scan, _HMM, _hmm, along, series),
        _both(
            "Kalman filter, 2 x 2",
            f"{scan}, of numbers",
            _KALMAN,
            _kalman,
            "(n),(k)->(n)",
            with_shared(0.0625, 0.015625, 0.5),
            shared=("noise",),
        ),
        _both(
            "GARCH(1, 1)",
            scan,
            _GARCH,
            _garch,
            "(n),(k)->()",
            with_shared(0.125, 0.125, 0.75),
            shared=("p",),
        ),
        Kernel(
            "cubic spline, 33 knots",
            "`searchsorted` by comparing with all, and indexing",
            _SPLINE,
            _spline,
            "(n),(k),(k),(k)->(n)",
            _knots,
            shared=("t", "y", "s"),
        ),
        Kernel(
            "soft-DTW",
            "`lax.scan` over the diagonals of the table",
            _SOFT_DTW,
            _soft_dtw,
            "(n),(k)->()",
            _with_model,
            size=64,
            shared=("m",),
            lanes=True,
            before="#include <vector>",
        ),
        Kernel(
            "isotonic regression",
            "a `lax.scan` of 2 n - 1 steps that joins blocks on a stack",
            _ISOTONIC,
            _isotonic,
            "(n),(n)->(n)",
            _rising,
            function="isotonic",
        ),
        Kernel(
            "shortest path",
            "sweeps over the grid (Bellman-Ford): a `while_loop` until nothing "
            "changes, for gradients a `scan` of the most that can be needed",
            _SHORTEST_PATH,
            _shortest_path,
            "(h,w)->()",
            _grid,
            value=_until_nothing_changes,
            function="shortest_path",
        ),
        Kernel(
            "queue with two servers",
            "`lax.scan` over sorted customers",
            _SIMULATE,
            _simulate,
            "(n),(n)->(n),(n)",
            _customers,
            function="simulate",
        ),
    ]
    return {kernel.name: kernel for kernel in ten}
