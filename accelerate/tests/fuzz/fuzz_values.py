"""Arrays of every kind: special values, ties, well-conditioned matrices."""

import jax.numpy as jnp
import numpy as np
from numpy.random import Generator

# Of arrays that are compared by bits, the simplest first.
ANY = (
    *("small", "normal", "ties", "sorted", "reversed", "zeros", "specials"),
    *("bits", "one nan", "subnormal", "nans"),
)
_SPECIAL = ("zeros", "subnormal", "specials", "large", "nans")
FINITE = ("small", "normal", "ties", "sorted", "zeros", "wide")


def is_float(dtype: np.dtype) -> bool:
    """Whether it is a real floating-point type."""
    return bool(jnp.issubdtype(dtype, np.floating))


def make(kind: str, shape: tuple[int, ...], dtype: str, seed: int, lead: int):
    """An array.

    Args:
      kind: of ANY, or one of `_STRUCTURED`.
      shape: of the array.
      dtype: the name of its dtype.
      seed: of its values.
      lead: how many axes come before those that the structure is about.
    """
    random = np.random.default_rng(seed)
    if kind in _STRUCTURED:
        count = int(np.prod(shape[:lead], dtype=np.int64))
        parts = [_STRUCTURED[kind](random, shape[lead:]) for _ in range(count)]
        whole = np.array(parts) if parts else np.zeros(shape)
        return whole.reshape(shape).astype(jnp.dtype(dtype))
    size = int(np.prod(shape, dtype=np.int64))
    with np.errstate(all="ignore"):
        if dtype.startswith("complex"):
            part = "float32" if dtype == "complex64" else "float64"
            real, imag = (
                _flat(kind, jnp.dtype(part), random, size) for _ in range(2)
            )
            flat = np.zeros(size, dtype)
            flat.real, flat.imag = real, imag
        else:
            flat = _flat(kind, jnp.dtype(dtype), random, size)
    return flat.reshape(shape)


def _flat(kind: str, dtype: np.dtype, random: Generator, n: int) -> np.ndarray:
    if kind == "bits" or (kind == "normal" and not is_float(dtype)):
        if dtype.kind == "b":
            return random.integers(2, size=n).astype(bool)
        return np.frombuffer(random.bytes(n * dtype.itemsize), dtype)
    if kind == "normal":
        return random.standard_normal(n).astype(dtype)
    if kind == "wide":
        scale = 10.0 ** (random.integers(9, size=n) - 4)
        return (random.standard_normal(n) * scale).astype(dtype)
    if kind in _SPECIAL and dtype.kind != "b":
        values = _special(dtype, kind)
        return values[random.integers(len(values), size=n)]
    few = random.integers(5, size=n) - (0 if dtype.kind in ("b", "u") else 2)
    if kind == "ties":
        few = random.integers(2, size=n)
    if kind in ("sorted", "reversed"):
        few = np.sort(random.integers(1 + n, size=n) % 100)
        few = few[::-1] if kind == "reversed" else few
    flat = few.astype(dtype)
    if kind == "one nan" and n and is_float(dtype):
        flat[random.integers(n)] = np.nan
    return flat


def _special(dtype: np.dtype, kind: str) -> np.ndarray:
    if not is_float(dtype):
        info = np.iinfo(dtype)
        return np.array([0, info.min, info.max, 1, info.max // 2], dtype)
    info = jnp.finfo(dtype)
    positive = {
        "zeros": [0],
        "subnormal": [0, info.smallest_subnormal, info.tiny / 2, info.tiny],
        "specials": [
            *(0, 1, info.max, np.inf, np.nan, info.tiny),
            *(info.smallest_subnormal, info.eps),
        ],
        "large": [0, 1, info.max, np.inf, np.nan, 3],
        "nans": [np.nan],
    }[kind]
    values = np.array([float(v) for v in positive]).astype(dtype)
    if kind in ("specials", "nans"):
        unsigned = np.dtype(f"u{dtype.itemsize}")
        nan = np.array([np.nan], dtype).view(unsigned)
        payload = (nan | unsigned.type(5)).view(dtype)
        values = np.concatenate([values, payload])
    return np.concatenate([values, -values])


def _well(random: Generator, shape: tuple[int, ...]) -> np.ndarray:
    """A matrix of small condition, with its pivots in any row."""
    rows, columns = shape
    a = random.standard_normal(shape) / 4 + 3 * np.eye(rows, columns)
    return random.permutation(a)


def _definite(random: Generator, shape: tuple[int, ...]) -> np.ndarray:
    a = random.standard_normal(shape) / 2
    return a @ a.T + np.eye(shape[0])


def _symmetric(random: Generator, shape: tuple[int, ...]) -> np.ndarray:
    a = random.standard_normal(shape)
    return a + a.T


def _triangular(random: Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Both of its triangles make well-conditioned systems, of any diagonal."""
    a = random.standard_normal(shape) / (4 * shape[0])
    return a + np.eye(shape[0]) * (1 + random.random(shape[0]))


def _singular(random: Generator, shape: tuple[int, ...]) -> np.ndarray:
    """A matrix with a row, a column or all of it zero; or a sound one."""
    a = _well(random, shape)
    kind = random.integers(4)
    if kind == 0:
        a[:] = 0
    elif kind == 1:
        a[random.integers(len(a))] = 0
    elif kind == 2:
        a[:, random.integers(len(a))] = 0
    return a


_STRUCTURED = {
    "definite": _definite,
    "singular": _singular,
    "symmetric": _symmetric,
    "triangular": _triangular,
    "well": _well,
}
