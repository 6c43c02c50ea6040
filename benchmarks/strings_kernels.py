"""Ten kernels as strings of C++, each with its form in JAX.

Here are those whose rows take the same steps, and what a kernel is; the others
are in `strings_algorithms`. Constants are exact in f32.
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
      decorator: `rows` or `inline`, given the code.
      jax: the JAX form of one row: it names operation and operands.
      axes: those of the operands and results of a row.
      operands: makes those of some rows, or of one without an axis of rows,
        from a generator, a shape of rows such as (391,) or (), and a size.
      size: of a row in the benchmark.
      shared: the operands that all rows share.
      value: the JAX form of one row, where one without a gradient is faster.
      lanes: whether the string of `rows` has no branch on data.
      scan: the decorator of the form whose loop is a `kit::scan`.
    """

    name: str
    form: str
    decorator: Callable[..., Any]
    jax: Callable[..., Any]
    axes: str
    operands: Callable[[np.random.Generator, tuple[int, ...], int], list[Any]]
    size: int = 512
    shared: tuple[str, ...] = ()
    value: Callable[..., Any] | None = None
    lanes: bool = False
    scan: Callable[..., Any] | None = None

    def operation(
        self, *, has_reference: bool = False, scan: bool = False, **options: Any
    ) -> Any:
        """The operation; the reference, if it has one, is the JAX form.

        Args:
          has_reference: see there, as for the other keywords.
          scan: whether the loop is a `kit::scan`.
          **options: of `rows` or `inline`; `dtypes` is one.
        """

        @functools.wraps(self.jax)
        def function(*operands: Any, **attributes: Any) -> Any:
            row = functools.partial(self.jax, **attributes)
            if has_reference:
                return jnp.vectorize(row, signature=self.axes)(*operands)
            return jax.eval_shape(row, *operands)

        given = {"axes": self.axes, "derivatives": "kernel"}
        if self.shared:
            given["shared"] = self.shared
        decorator = self.scan if scan and self.scan else self.decorator
        make = decorator(has_reference=has_reference, **given | options)
        return make(function)

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


def _both(name: str, form: str, loop: _Loop, *row: Any, **more: Any) -> Kernel:
    """A kernel of both forms of a loop."""
    plain, scan = (
        functools.partial(xla_ffi_kit.rows, code)
        for code in (loop.plain, loop.scan)
    )
    return Kernel(name, form, plain, *row, lanes=True, scan=scan, **more)


def _even() -> list[Kernel]:
    scan = "`vmap` of `lax.scan`"
    along = "(n)->(n)"
    return [
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
    ]


@functools.cache
def kernels() -> Mapping[str, Kernel]:
    """All ten by their names, in the page's order."""
    import strings_algorithms

    found = [*_even(), *strings_algorithms.kernels()]
    return {kernel.name: kernel for kernel in found}
