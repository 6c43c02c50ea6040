"""Programs of factorizations, whose results are close."""

from fuzz_program import Builder
from ops_rows import dtypes

_FLOATS = ["float32", "float64"]


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
    dtype = dtypes(b, _FLOATS)
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
