"""The results of an operation: how many, of which types, and in what form."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import rows, said

from xla_ffi_kit import FfiOp


def operation(reference, **options):
    given = {"kernel_axes": 0, "handlers": {}}
    return FfiOp("test.results", reference, **(given | options))


def one_or_two(x, *, pair):
    return (x, 2 * x) if pair else 3 * x


@pytest.mark.parametrize("first", [True, False])
def test_an_attribute_may_decide_how_many_results_there_are(first):
    op = operation(
        one_or_two,
        attributes={"pair": np.bool_},
        vjp=(
            lambda x, *, pair: (one_or_two(x, pair=pair), None),
            lambda _, ct, *, pair: (ct[0] + 2 * ct[1] if pair else 3 * ct,),
        ),
    )
    x, two = rows(3), jax.tree.structure((0, 0))
    for pair in (first, not first, first):
        call = functools.partial(op, pair=pair)
        reference = functools.partial(call, implementation="reference")
        want = two if pair else jax.tree.structure(0)
        # jit finds the first call's trace again, and none that followed.
        for f in (call, jax.jit(call), jax.vmap(call), reference):
            assert jax.tree.structure(f(x)) == want
        y, back = jax.vjp(call, x)
        np.testing.assert_array_equal(back(y)[0], (5 if pair else 9) * x)


def test_one_result_in_a_tuple_stays_a_tuple():
    op = operation(lambda x: (2 * x,))
    for function in (op, jax.jit(op), jax.vmap(op)):
        (y,) = function(rows(2, 3))
        np.testing.assert_array_equal(y, 2 * rows(2, 3))


def test_reference_that_returns_no_arrays():
    op = operation(lambda x: {"y": x})
    assert said(op, rows(3)) == (
        "TypeError: test.results: results of the reference: expected an array "
        "or a tuple of arrays, got PyTreeDef({'y': *})"
    )


def test_reference_that_drops_the_batch_axes():
    op = operation(lambda x: jnp.sum(x), kernel_axes=1)
    assert said(op, rows(2, 3)) == (
        "ValueError: test.results: result 0 of the reference: expected batch "
        "dimensions [2] as the operands have, got shape []"
    )


def test_result_types_follow_the_64_bit_setting():
    op = operation(lambda x: x * 1.0 + jnp.ones((), float))
    x = jnp.ones(3, jnp.int32)
    for wide, dtype in ((False, "float32"), (True, "float64")) * 2:
        with jax.enable_x64(wide):
            assert op(x).dtype == dtype


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("has_handler", [False, True])
def test_a_program_keeps_the_64_bit_setting_of_its_tracing(wide, has_handler):
    def third(x):
        """Narrow from outside, with bits that only a wide number has."""
        return (jnp.ones((), float) / 3 - 0.33333333).astype(x.dtype) + x * 0

    op = operation(third, handlers={"cpu": third} if has_handler else {})
    with jax.enable_x64(wide):
        for x in (jnp.ones(3, np.float32), jnp.ones(3, float)):
            want = third(x)
            for f in (op, jax.vmap(op), jax.jit(op)):
                traced = jax.jit(f).trace(x)
                with jax.enable_x64(not wide):
                    compiled = traced.lower().compile()
                got = compiled(x)
                assert got.dtype == want.dtype
                np.testing.assert_array_equal(got, want)
