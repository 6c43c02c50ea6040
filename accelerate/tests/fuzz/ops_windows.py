"""Programs of windows: depthwise convolutions, and the gradients of pooling."""

from fuzz_program import Builder
from ops_rows import dtypes

_VALUES = ("small", "normal", "ties", "zeros", "subnormal")
_PADDINGS = ("'SAME'", "'VALID'")


def exact(b: Builder) -> None:
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
