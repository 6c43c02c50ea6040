"""The figures that the package is to reach, and the cells that show them."""

from __future__ import annotations

from bench.gate import Target


def _jax(name: str, size: str, xla: float, numpy: float | None) -> Target:
    faster = {"xla": xla} | ({"numpy": numpy} if numpy else {})
    return Target(f"accelerate/{name}/{size}/fresh", faster)


TARGETS = (
    *(
        _jax(f"sort_{dtype}", size, xla, 0.95)
        for dtype, xla in (("f32", 50), ("i32", 12))
        for size in ("100000", "1000000", "10000000")
    ),
    _jax("sort_f32", "1024x1024", 50, 1.0),
    _jax("argsort_f32", "1000000", 25, 1.5),
    _jax("sort_key,_payload", "1000000", 25, 1.5),
    _jax("argsort_f32", "1024x1024", 15, 1.0),
    _jax("top_k,_64", "1024x1024", 7, 1.0),
    _jax("top_k,_64", "1000000", 1.2, 1.0),
    _jax("median", "1000000", 50, 1.0),
    _jax("percentile,_three", "1000000", 15, 1.0),
    _jax("permutation", "1000000", 15, None),
    _jax("choice", "1000000", 15, None),
    _jax("unique", "1000000", 8, None),
    _jax("isin", "1000000", 8, None),
    _jax("isin,_by_default", "100000", 1.0, None),
    _jax("median_of_rows", "1000000x8", 3, None),
    _jax("nonzero,_accelerated", "16", 1.0, None),
    _jax("nonzero,_accelerated", "1000000", 2.5, None),
    _jax("argmax_f32", "1000000", 8, 1.0),
    _jax("cumsum_f32", "1000000", 1.5, 1.0),
    _jax("random_bits", "1000000", 3, None),
    _jax("uniform_f32", "1000000", 3, None),
    _jax("normal_f32", "1000000", 1.5, None),
    _jax("randint_i32", "1000000", 4, None),
    _jax("bernoulli", "1000000", 4, None),
    _jax("categorical", "10000x100", 1.0, None),
    _jax("poisson,_30", "10000", 1.0, None),
    _jax("sort_f32", "1000000x8", 3, None),
    _jax("matmul,_small", "10000x4x4", 20, None),
)
