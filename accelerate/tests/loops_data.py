"""What the tests of loops compare, and how."""

import jax
import jax.numpy as jnp
import numpy as np
from accelerate_data import both

CALLS = ("custom_call", "stablehlo.sort", "chlo.top_k")


def in_loop(f):
    """`f` of each of some operands, in a loop."""
    return lambda *xs: jax.lax.scan(lambda c, x: (c, f(*x)), 0, xs)[1]


def check(f, *arguments, tolerance=64):
    """The results agree within so many eps of each array's largest."""
    wants, gots, text = both(f, *arguments, exact=False)
    # XLA leaves a sort of one element out.
    is_one = all(x.shape[-1] == 1 for x in jax.tree.leaves(arguments))
    assert is_one or not [call for call in CALLS if call in text]
    for want, got in zip(wants, gots, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        if not np.issubdtype(want.dtype, np.inexact):
            np.testing.assert_array_equal(got, want)
            continue
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        finite = np.isfinite(want)
        np.testing.assert_array_equal(np.isfinite(got), finite)
        size = np.abs(want[finite]).max(initial=1)
        error = np.abs(got - want)[finite].max(initial=0)
        assert error <= tolerance * size * np.finfo(want.dtype).eps


def of_each(f):
    """`f` of each of some tuples of operands, as one function.

    To compile one program of them takes much less time than one of each.
    """
    return lambda *many: [f(*operands) for operands in many]


def squares(f):
    """The sum of the squares of a function's real results."""
    return lambda *x: sum(
        (y**2).sum()
        for y in jax.tree.leaves(f(*x))
        if jnp.issubdtype(y.dtype, np.floating)
    )
