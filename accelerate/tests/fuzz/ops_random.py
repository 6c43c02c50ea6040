"""Programs of random numbers."""

from fuzz_program import Builder
from ops_rows import dtypes

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
