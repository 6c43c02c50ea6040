"""Writes the operation of each name into a program."""

from collections.abc import Callable, Sequence

import fuzz_values
import jax.numpy as jnp
import numpy as np
from fuzz_program import Builder

# --- Rows: sorts, selections, searches, cumulative sums ----------------------

INTEGERS = "int32 int8 uint8 int16 uint16 uint32 int64 uint64".split()
FLOATS = "float32 bfloat16 float16 float64".split()
REAL = ["float32", "int32", *FLOATS[1:], *INTEGERS[1:], "bool"]
_LENGTHS = (2, 8, 3, 5, 1, 0, 4, 7, 9, 16, 17, 31, 33, 40, 65, 130, 300)
_CUMULATED = (20, 130, 17, 5, 300, 8, 1100, 2, 1, 0, 40, 16)
_FEW = (3, 2, 8, 5, 7, 4, 9, 1)
_OTHERS = (1, 3, 2, 0, 5, 8, 17)


def dtypes(b: Builder, options: list[str]) -> str:
    """A dtype that the program's mode has."""
    if not b.program.x64:
        options = [d for d in options if "64" not in d]
    return b.draw.one_of(options)


def shape(b: Builder, lengths: tuple[int, ...] = _LENGTHS) -> tuple[int, ...]:
    """A shape of one to three axes, one of them long."""
    is_small = b.in_loop and not b.draw.rarely(4)
    rank = 1 + b.draw.below(2 if is_small else 3)
    axes = [b.draw.one_of(_FEW if is_small else lengths)]
    others = _OTHERS[:3] if is_small else _OTHERS
    axes += [b.draw.one_of(others) for _ in range(rank - 1)]
    turn = b.draw.below(rank)
    return (*axes[turn:], *axes[:turn])


def operand(
    b: Builder, options: list[str], lengths: tuple[int, ...] = _LENGTHS
) -> None:
    """The last variable, or a new array if there is none that fits."""
    aval = b.aval
    if aval is None or str(aval.dtype) not in options or not aval.shape:
        b.last = ""
        b.array(shape(b, lengths), dtypes(b, options), *fuzz_values.ANY)
        if b.draw.rarely(3):
            before(b)
    elif b.program.judge != "bits" and fuzz_values.is_float(aval.dtype):
        # Of what was computed, the signs of NaNs and whether subnormal numbers
        # are zeros depend on the compiler and the thread; they decide an order.
        b.line("jnp.where(jnp.isnan({x}), jnp.nan, {x})")
        tiny = "jnp.finfo({x}.dtype).tiny"
        b.line(f"jnp.where(jnp.abs({{x}}) < {tiny}, 0, {{x}})")


def before(b: Builder) -> None:
    """What XLA may fold into an operation that comes after it."""
    dtype, last = str(b.aval.dtype), b.aval.shape[-1]
    options = ["jnp.flip({x})", "jnp.swapaxes({x}, 0, -1)"]
    if dtype != "bool":
        options += ["jnp.pad({x}, (2, 1))", "jnp.pad({x}, (1, 0))"]
    if dtype == "float32":
        options.append("{x}.astype(jnp.bfloat16).astype({x}.dtype)")
    if dtype not in ("bfloat16", "float16"):  # whose sums would be rounded
        options.append("jnp.full_like({x}, 2)")
    if last > 2:
        options += ["{x}[..., 1:]", "{x}[..., ::2]"]
    if last:
        options.append("jnp.broadcast_to({x}[..., :1], {x}.shape)")
    b.line(b.draw.one_of(options))


def after(b: Builder) -> None:
    """What XLA may make one of with an operation that comes before it."""
    options = ["{x}[..., 1:]", "{x}[..., ::-1]", "{x}[..., -1:]"]
    dtype = b.aval.dtype
    if dtype != np.bool_:
        options += ["{x} - {x}.dtype.type(1)", "jnp.sum({x}, -1)"]
        options += ["jnp.sum({x}, 0)", "jnp.sum({x})"]
        options += ["{x}.astype(jnp.float16)", "jnp.max({x}, -1, initial=0)"]
    b.line(b.draw.one_of(options))
    if fuzz_values.is_float(b.aval.dtype) and b.program.judge == "bits":
        b.program.judge = "nans"


def axis(b: Builder, is_last: bool = False) -> int:
    """An axis of the last variable, the last one most often."""
    rank = len(b.aval.shape)
    return rank - 1 if is_last else rank - 1 - b.draw.below(rank)


def sort(b: Builder) -> None:
    operand(b, REAL)
    d = axis(b)
    form = b.draw.below(6)
    if form == 5:
        # Equal keys may come in any order, but have the same bits here.
        is_integer = not fuzz_values.is_float(b.aval.dtype)
        extra = ", is_stable=False" if is_integer else ""
        b.line(f"jax.lax.sort({{x}}, dimension={d}{extra})")
    elif form == 4:
        b.line(f"jnp.sort({{x}}, axis={d}, descending=True)")
    elif form in (2, 3):
        options = REAL if form == 2 else [*REAL, "complex64"]
        payload = b.array(
            b.aval.shape, dtypes(b, options), "small", "ties", "bits"
        )
        keys = 1 + b.draw.below(2) if form == 2 else 1
        both = f"({{x}}, {payload})"
        b.line(f"jax.lax.sort({both}, dimension={d}, num_keys={keys})")
    elif form == 1:
        # Positions are payload; with two keys, the second breaks ties.
        both = f"({{x}}, jax.lax.broadcasted_iota(np.int32, {{x}}.shape, {d}))"
        b.line(f"jax.lax.sort({both}, dimension={d}, num_keys=2)")
    else:
        b.line(f"jax.lax.sort({{x}}, dimension={d})")


def argsort(b: Builder) -> None:
    operand(b, REAL)
    descending = ", descending=True" if b.draw.rarely(3) else ""
    b.line(f"jnp.argsort({{x}}, axis={axis(b)}{descending})")


def top_k(b: Builder) -> None:
    f32 = b.draw.rarely(3)
    lengths = (300, 8200, 1500) if f32 else _LENGTHS
    kinds = ["float32"] if f32 else [d for d in REAL if d != "bool"]
    operand(b, kinds, lengths)
    if min(b.aval.shape) == 0 and b.draw.below(2):
        b.last = ""
        operand(b, kinds, lengths)
    n = b.aval.shape[-1]
    k = min(n, b.draw.one_of((1, 2, 0, 256, 5, n, n // 2 + 1)))
    b.line(f"jax.lax.top_k({{x}}, {k})")


def _search(function: str):
    def write(b: Builder) -> None:
        operand(b, REAL, (32, 2, 33, 16, 40, 65, 130, 300, 1))
        d = axis(b)
        if b.aval.shape[d] == 0:  # JAX refuses it
            b.last = ""
            operand(b, REAL, (32, 33, 65, 130, 300, 1))
            d = int(np.argmax(b.aval.shape))
        index = dtypes(b, ["int32", "uint32", "int64", "uint64"])
        b.line(f"jax.lax.{function}({{x}}, {d}, jnp.{index})")

    return write


argmax, argmin = _search("argmax"), _search("argmin")


def cumsum(b: Builder) -> None:
    options = [d for d in REAL if d != "bool"]
    operand(b, options, _CUMULATED)
    d = axis(b)
    reverse = ", reverse=True" if b.draw.rarely(3) else ""
    b.line(f"jax.lax.cumsum({{x}}, {d}{reverse})")
    # Of two NaNs that meet, either may stay.
    if b.program.judge == "bits":
        b.program.judge = "nans"


CHAINED = (sort, argsort, top_k, argmax, argmin, cumsum)


def plain(b: Builder) -> None:
    """An operation without a rule that rounds nothing."""
    x = b.aval
    is_number = x.dtype != bool and not jnp.issubdtype(
        x.dtype, np.unsignedinteger
    )
    options = ["jnp.flip({x})", "jnp.swapaxes({x}, 0, -1)", "{x}[..., ::-1]"]
    if is_number:
        options += ["-{x}", "jnp.abs({x})", "{x} * 2"]
    if not x.shape:
        options = options[3:] or ["~{x}"]
    b.line(b.draw.one_of(options))


# --- Products of small matrices -----------------------------------------------

_WIDE = ["float32", "float64"]
# XLA's own products that are subnormal depend on the thread: some flush them.
_NOT_SMALL = ("small", "normal", "ties", "zeros", "large")
# Operands' axes: b of the batch, summed over k.
_EQUATIONS = (
    *("bmk,bkn->bmn", "bkm,bkn->bmn", "bmk,bnk->bmn", "bkm,bnk->bnm"),
    *("mbk,kbn->bmn", "bmk,bkn->nbm", "bimk,bikn->bimn", "bmik,bkin->bmn"),
)


def _product(b: Builder, count: int, sides: Sequence[int], *kinds: str) -> None:
    equation = b.draw.one_of(_EQUATIONS)
    sizes = dict(zip("bimkn", (count, 2, *sides), strict=True))
    dtype = dtypes(b, _WIDE)
    operands = equation.split("->")[0].split(",")
    names = [
        b.array(tuple(sizes[axis] for axis in axes), dtype, *kinds)
        for axes in operands
    ]
    if b.draw.rarely(5) and operands[0] == operands[1]:
        names[1] = names[0]
    b.line(f"jnp.einsum('{equation}', {names[0]}, {names[1]})")


def dot_general(b: Builder) -> None:
    """Matrices of up to 7 rows: many of them, or a few that a loop has."""
    count = b.draw.one_of((1, 8, 2) if b.in_loop else (8, 9, 40, 100, 7, 0))
    sides = (4, 5, 6, 7, 5, 6, 7, 4, 3, 2, 1, 8)
    sides = [b.draw.one_of(sides) for _ in range(3)]
    b.program.judge = "nans"
    _product(b, count, sides, *_NOT_SMALL)


def loops(b: Builder) -> None:
    """A few matrices of up to 12 rows."""
    count = b.draw.one_of((1, 2, 3))
    sides = [b.draw.one_of((8, 4, 12, 9, 5, 2, 1)) for _ in range(3)]
    b.program.judge = "linear"
    _product(b, count, sides, *fuzz_values.FINITE)


# --- Factorizations, whose results are close ----------------------------------


def _batch(b: Builder) -> tuple[int, ...]:
    options = ((4,), (5,), (2, 3), (33,), (1,), (0,), ())
    lead = b.draw.one_of(((), (2,), ()) if b.in_loop else options)
    b.program.batch = len(lead)
    return lead


def _rhs(b: Builder, lead: tuple[int, ...], n: int, dtype: str) -> str:
    width = b.draw.one_of((1, 3, 2, 8) if b.in_loop else (1, 3, 2, 8, 1024))
    return b.array((*lead, n, width), dtype, "small", "normal")


def linalg(b: Builder) -> None:
    b.program.judge = "solved"
    lead = _batch(b)
    n = b.draw.one_of((2, 3, 1, 4) if b.in_loop else (2, 3, 1, 4, 8, 5, 13))
    dtype = dtypes(b, _WIDE)
    count = len(lead)

    def square(*kinds: str) -> str:
        return b.array((*lead, n, n), dtype, *kinds, lead=count)

    form = b.draw.below(11)
    if form < 4:
        a = square("well", "well", "singular")
        name = ("inv", "det", "slogdet", "solve")[form]
        more = f", {_rhs(b, lead, n, dtype)}" if name == "solve" else ""
        b.line(f"jnp.linalg.{name}({a}{more})")
    elif form == 4:
        b.line(f"jnp.linalg.cholesky({square('definite', 'symmetric')})")
    elif form == 5:
        a = square("definite")
        rhs = _rhs(b, lead, n, dtype)
        factor = f"(jnp.linalg.cholesky({a}), True)"
        b.line(f"jax.scipy.linalg.cho_solve({factor}, {rhs})")
    elif form == 6:
        b.line(f"jax.lax.linalg.lu({square('well')})")
    elif form == 7:
        _triangular(b, square("triangular"), lead, n, dtype)
    elif form == 8:
        a = square("well")
        rhs = _rhs(b, lead, n, dtype)
        factors = f"jax.scipy.linalg.lu_factor({a})"
        b.line(f"jax.scipy.linalg.lu_solve({factors}, {rhs})")
    else:
        _orthogonal(b, lead, dtype)


def _triangular(
    b: Builder, a: str, lead: tuple[int, ...], n: int, dtype: str
) -> None:
    left = b.draw.below(2) == 0
    rhs = _rhs(b, lead, n, dtype)
    if not left:
        b.line(f"jnp.swapaxes({rhs}, -1, -2)")
        rhs = b.last
    flags = ("lower", "transpose_a", "unit_diagonal")
    given = ", ".join(f"{f}={bool(b.draw.below(2))}" for f in flags)
    given = f"left_side={left}, {given}"
    b.line(f"jax.lax.linalg.triangular_solve({a}, {rhs}, {given})")


def _orthogonal(b: Builder, lead: tuple[int, ...], dtype: str) -> None:
    m, n = (1 + b.draw.below(3) for _ in range(2))
    if not b.in_loop:
        m, n = b.draw.one_of((m, 4, 8)), b.draw.one_of((n, 4))
    # JAX has a derivative of no other than these.
    m = max(m, n)
    modes = ("reduced", "complete") if m == n else ("reduced",)
    mode = b.draw.one_of(modes)
    a = b.array((*lead, m, n), dtype, "well", lead=len(lead))
    b.line(f"jnp.linalg.qr({a}, mode='{mode}')")


# --- Random numbers -----------------------------------------------------------

_SIZES = (1, 2, 8, 9, 32, 33, 0, 17, 300, 1001)
# {n}: a size, {f}: a dtype of floats, {key}: the key.
_NUMBERS = (
    "jax.random.bits({key}, ({n},), '{u}')",
    "jax.random.uniform({key}, ({n},), '{f}')",
    "jax.random.normal({key}, (2, {n}), '{f}')",
    "jax.random.randint({key}, ({n},), -3, 100)",
    "jax.random.bernoulli({key}, 0.3, ({n},))",
    "jax.random.permutation({key}, {n})",
    "jax.random.gumbel({key}, ({n},), '{f}')",
    "jax.random.exponential({key}, ({n},), '{f}')",
    "jax.random.choice({key}, 50, ({n},))",
    "jax.random.key_data(jax.random.split({key}, {n}))",
    "jax.random.key_data(jax.random.fold_in({key}, 7))",
    "jax.vmap(lambda k: jax.random.bits(k, (3,)))"
    "(jax.random.split({key}, {n}))",
    "jax.random.truncated_normal({key}, -1, 2, ({n},), '{f}')",
    "jax.random.categorical({key}, jnp.arange(5.0), shape=({n},))",
)


def random(b: Builder) -> None:
    b.program.partitionable = not b.draw.rarely(3)
    words = b.array((2,), "uint32", "bits", "specials", lead=0)
    b.line(f"jax.random.wrap_key_data({words})")
    if b.draw.below(2):
        b.line("jax.random.split({x})[1]")
    expression = b.draw.one_of(_NUMBERS)
    expression = expression.replace("{n}", str(b.draw.one_of(_SIZES)))
    kind = dtypes(b, ["float32", "bfloat16", "float16", "float64"])
    expression = expression.replace("{f}", kind)
    kind = dtypes(b, ["uint32", "uint8", "uint16", "uint64"])
    expression = expression.replace("{u}", kind)
    b.line(expression.replace("{key}", "{x}"))


# --- Windows: depthwise convolutions, gradients of pooling --------------------

_VALUES = ("small", "normal", "ties", "zeros", "subnormal")
_PADDINGS = ("'SAME'", "'VALID'")


def convolution(b: Builder) -> None:
    """Depthwise convolutions in two dimensions."""
    b.program.judge = "nans"
    channels = b.draw.one_of((17, 18, 32, 35, 4))
    batch = b.draw.one_of((1, 2, 3))
    image = [b.draw.one_of((6, 4, 9, 1, 13)) for _ in "HW"]
    window = [b.draw.one_of((3, 2, 1, 4)) for _ in "HW"]
    strides = tuple(b.draw.one_of((1, 2, 3)) for _ in "HW")
    padding = b.draw.one_of(_PADDINGS)
    if b.draw.rarely(3):
        ends = [(b.draw.below(3), b.draw.below(3)) for _ in "HW"]
        padding = repr(ends)
    dilation = (1, 1)
    if b.draw.rarely(4):
        dilation = tuple(1 + b.draw.below(2) for _ in "HW")
    order = b.draw.below(2)
    lhs = "NHWC" if not order else "NCHW"
    rhs = "HWIO" if not order else "OIHW"
    of = {"N": batch, "C": channels, "I": 1, "O": channels}
    of |= dict(zip("HW", image, strict=True))
    x = b.array(tuple(of[c] for c in lhs), "float32", *_VALUES)
    if b.draw.rarely(3):
        ends = ["(1, 2)" if c in "HW" else "(0, 0)" for c in lhs]
        b.line(f"jnp.pad({x}, ({', '.join(ends)}))")
        x = b.last
    of |= dict(zip("HW", window, strict=True))
    k = b.array(tuple(of[c] for c in rhs), "float32", *_VALUES)
    b.line(
        f"jax.lax.conv_general_dilated({x}, {k}, {strides}, {padding}, "
        f"(1, 1), {dilation}, {(lhs, rhs, lhs)}, {channels})"
    )


def pooling(b: Builder) -> None:
    """The gradient of max or min pooling, with respect to its input."""
    rank = 1 + b.draw.below(2)
    front = 1 + b.draw.below(3)
    shape = [b.draw.one_of((7, 12, 5, 1, 20)) for _ in range(rank)]
    window = [b.draw.one_of((2, 3, 4, 1)) for _ in range(rank)]
    strides = [b.draw.one_of((1, 2, 3)) for _ in range(rank)]
    padding = b.draw.one_of(_PADDINGS)
    channels = b.draw.one_of((1, 3, 5))
    largest = b.draw.below(2)
    dtype = dtypes(b, ["float32", "float64"])
    # Of few windows, XLA may leave the sum out that flushes.
    b.program.judge = "flushed" if b.program.forced else "nans"
    kinds = ("small", "normal", "ties", "zeros", "specials", "one nan")
    shape = (front, *shape, channels)
    x = b.array(shape, dtype, *kinds)
    sizes = (1, *window, 1), (1, *strides, 1)
    first = ("-jnp.inf", "jnp.inf")[largest]
    function = ("max", "min")[largest]
    pool = (
        f"lambda x: jax.lax.reduce_window(x, {first}, jax.lax.{function}, "
        f"{sizes[0]}, {sizes[1]}, {padding})"
    )
    b.line(f"jax.vjp({pool}, {x})")
    pooled = b.avals[b.last][0]
    g = b.array(pooled.shape, dtype, "small", "normal", "ties", "specials")
    b.line(f"{{x}}[1]({g})[0]")


# Name of accelerate -> writes an operation that it is to replace.
OPERATIONS: dict[str, Callable[[Builder], None]] = {
    "argmax": argmax,
    "argmin": argmin,
    "conv_general_dilated": convolution,
    "cumsum": cumsum,
    "dot_general": dot_general,
    "linalg": linalg,
    "loops": loops,
    "random": random,
    "select_and_scatter_add": pooling,
    "sort": sort,
    "top_k": top_k,
    # One more of "sort".
    "argsort": argsort,
}
