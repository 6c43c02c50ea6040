"""Strings of C++ with adjoints that were written by hand, given by `vjp=`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import xla_ffi_kit
from strings_kernels import kernels


def _like(x: Any, *others: Any) -> Any:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


_rows: Any = xla_ffi_kit.rows
_of_rows = {"dtypes": "f32", "has_reference": False}


def smoothing() -> Any:
    """Exponential smoothing: the same filter, from the end."""

    @_rows(
        """
        A slope = 0;
        for (int64_t i = ct.size() - 1; i >= 0; --i) {
          slope += ct[i];
          out[i] = 0.125f * slope;
          slope -= out[i];
        }
        """,
        **_of_rows,
    )
    def smoothing_back(ct: Any) -> Any:
        return _like(ct)

    def forward(x: Any) -> Any:
        return op(x), None

    def back(_: Any, ct: Any) -> Any:
        return (smoothing_back(ct),)

    op = _operation("exponential smoothing", forward, back)
    return op


def soft_dtw() -> Any:
    """Soft-DTW: the forward kernel keeps the table."""

    @_rows(
        """
        const int64_t n = x.size(), k = m.size();
        for (int64_t j = 0; j <= k; ++j) table[j] = 1e6f;
        table[0] = 0;
        for (int64_t i = 0; i < n; ++i) {
          const int64_t to = (i + 1) * (k + 1), from = to - k - 1;
          table[to] = 1e6f;
          for (int64_t j = 0; j < k; ++j) {
            const A corner = table[from + j], up = table[from + j + 1];
            const A left = table[to + j], d = x[i] - m[j];
            const A low = std::min(corner, std::min(left, up));
            table[to + j + 1] = d * d + low -
                                std::log(std::exp(low - corner) +
                                         std::exp(low - left) +
                                         std::exp(low - up));
          }
        }
        """,
        results=["table"],
        axes="(n),(k)->(t)",
        shared="m",
        **_of_rows,
    )
    def soft_dtw_table(x: Any, m: Any) -> Any:
        size = (x.size + 1) * (m.size + 1)
        return jax.ShapeDtypeStruct((size,), x.dtype)

    @_rows(
        """
        const int64_t n = x.size(), k = m.size(), wide = k + 2;
        std::vector<A> own(2 * wide, A(0));  // of this line and the next
        for (int64_t j = 0; j < k; ++j) dm[j] = 0;
        for (int64_t i = n; i > 0; --i) {
          const A* const below = &own[(i + 1) % 2 * wide];
          A* const here = &own[i % 2 * wide];
          A slope = 0;
          here[k + 1] = 0;
          for (int64_t j = k; j > 0; --j) {
            const A at = table[i * (k + 1) + j];
            const auto share = [&](int64_t y, int64_t z, A whole) {
              const A e = x[y - 1] - m[z - 1];
              return whole * std::exp(table[y * (k + 1) + z] - e * e - at);
            };
            A sum = i == n && j == k ? A(ct[0]) : A(0);
            if (j < k) sum += share(i, j + 1, here[j + 1]);
            if (i < n) sum += share(i + 1, j, below[j]);
            if (i < n && j < k) sum += share(i + 1, j + 1, below[j + 1]);
            const A d = 2 * sum * (x[i - 1] - m[j - 1]);
            slope += d;
            dm[j - 1] -= d;
            here[j] = sum;
          }
          dx[i - 1] = slope;
        }
        """,
        before="#include <vector>",
        results=["dx", "dm"],
        axes="(n),(k),(t),()->(n),(k)",
        shared="m",
        **_of_rows,
    )
    def soft_dtw_back(x: Any, m: Any, table: Any, ct: Any) -> Any:
        return _like(x), _like(m)

    def forward(x: Any, m: Any) -> Any:
        table = soft_dtw_table(x, m)
        return table[..., -1], (x, m, table)

    def back(kept: Any, ct: Any) -> Any:
        dx, dm = soft_dtw_back(*kept, ct)
        return dx, jnp.sum(dm.reshape(-1, dm.shape[-1]), 0)

    return _operation("soft-DTW", forward, back)


def isotonic() -> Any:
    """Isotonic regression: a block's slopes are those of its mean."""

    @_rows(
        """
        for (int64_t i = 0, end = 0; i < y.size(); i = end) {
          A slope = 0, sum = 0;
          for (end = i; end < y.size() && y[end] == y[i]; ++end) {
            slope += ct[end];
            sum += weight[end];
          }
          slope /= sum;
          for (int64_t j = i; j < end; ++j) {
            dx[j] = weight[j] * slope;
            dw[j] = (x[j] - y[j]) * slope;
          }
        }
        """,
        results=["dx", "dw"],
        **_of_rows,
    )
    def isotonic_back(x: Any, weight: Any, y: Any, ct: Any) -> Any:
        return _like(x), _like(x)

    def forward(x: Any, weight: Any) -> Any:
        y = op(x, weight)
        return y, (x, weight, y)

    def back(kept: Any, ct: Any) -> Any:
        return isotonic_back(*kept, ct)

    op = _operation("isotonic regression", forward, back)
    return op


def _operation(name: str, forward: Any, back: Any) -> Any:
    kernel = kernels()[name]
    vjp = (forward, back)
    return kernel.operation(dtypes="f32", derivatives="reference", vjp=vjp)


ADJOINTS: dict[str, Callable[[], Any]] = {
    "exponential smoothing": smoothing,
    "soft-DTW": soft_dtw,
    "isotonic regression": isotonic,
}
