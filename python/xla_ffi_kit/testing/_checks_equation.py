"""The check of an operation that is defined by an equation, `solves=`."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_kit.op.spec import Arrays, flatten
from xla_ffi_kit.rules import solves
from xla_ffi_kit.testing import _case
from xla_ffi_kit.testing import _programs as programs
from xla_ffi_kit.testing._compare import FINITE_DIFFERENCES, tolerance_of
from xla_ffi_kit.testing._runner import Call, Failure, Runner, Skipped

_STEP = 1e-3  # of differences of fourth order


def equation(run: Runner) -> None:
    """The residual is small at the results, and derivatives are differences."""
    call = Call(programs.jitted)
    results = flatten(cast(Any, run.run(call)))
    operands = run.case.operands()
    attributes = run.op._bind_attributes(run.case.attributes)

    def of_row(results: Arrays, operands: Arrays, _: object) -> Arrays:
        one = solves.Equation(run.spec, attributes, results, operands)
        return _error_and_terms(one, operands)

    error, terms = solves.over_rows(run.spec, of_row, results, operands, {})
    floats = [y.dtype for y in results if _case.is_inexact(y)]
    allowed = 8 * run.factor * max(map(tolerance_of, floats))
    share = np.asarray(error / jnp.where(terms > 0, terms, 1))
    if share.size and not np.max(share) <= allowed:
        raise Failure(
            f"the results do not solve the equation of solves=: the residual "
            f"is {np.max(share):.2g} of its terms (tolerance {allowed:.2g}); "
            "solve it more exactly, or pass check_op a tolerance_factor=",
            run.snippet(call),
        )
    if all(x.dtype.itemsize >= 8 for x in operands if _case.is_inexact(x)):
        # The residual was compared, whatever derivatives are missing.
        with contextlib.suppress(Skipped):
            _compare_slopes(run)


def _error_and_terms(
    one: solves.Equation, operands: Arrays
) -> tuple[jax.Array, jax.Array]:
    """The largest residual of a row, and the size of what it is the sum of."""
    # Without complex numbers, of which JAX has no such Jacobians.
    floats = {
        i: x
        for i, x in enumerate(operands)
        if jnp.issubdtype(x.dtype, np.floating)
    }
    values = (one.unknowns, floats)
    if not one.unknowns.size:
        return jnp.zeros(()), jnp.zeros(())
    slopes = jax.jacrev(one.residual, (0, 1))(*values)

    def sizes(slope: jax.Array, value: jax.Array) -> jax.Array:
        products = jnp.abs(slope) * jnp.abs(value)
        return jnp.sum(products, tuple(range(1, products.ndim)))

    parts = jax.tree.leaves(jax.tree.map(sizes, slopes, values))
    terms = functools.reduce(jnp.add, parts)
    return jnp.max(jnp.abs(one.residual(*values))), jnp.max(terms)


def _compare_slopes(run: Runner) -> None:
    call = Call.of(programs.slopes_along_a_line, step=_STEP)
    got, want = cast(tuple[Any, Any], run.run(call))
    # What is smaller may be the noise of differences.
    noises = {"first": 1e-2, "second": 1.0, "reverse mode's": 1e-2}
    for kind, own, differences in zip(noises, got, want, strict=True):
        slack = [
            run.factor
            * FINITE_DIFFERENCES["float64"]
            * max(noises[kind], float(jnp.max(jnp.abs(y), initial=0)))
            for y in differences
        ]
        run.compare(
            call,
            own,
            differences,
            factor=8,
            slack=slack,
            what=f"{kind} slopes along a line and differences: ",
        )
