"""Programs of rows: sorts, selections, searches, cumulative operations."""

import fuzz_values
import jax.numpy as jnp
import numpy as np
from fuzz_program import Builder

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
