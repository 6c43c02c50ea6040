"""What an operation takes as an operand, and how a call passes it."""

import dataclasses
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import said
from jax.experimental import hijax

import xla_ffi_kit
from xla_ffi_kit import FfiOp


def operation(reference=lambda x: x + 1, **options):
    given = {"kernel_axes": 0, "handlers": {}}
    return FfiOp("test.operands", reference, **(given | options))


@pytest.mark.parametrize("implementation", [None, "reference"])
def test_a_ref_is_read_first(implementation):
    op = operation()
    ref = jax.new_ref(jnp.zeros(4))

    def call(ref):
        return op(ref, implementation=implementation)

    for f in (call, jax.jit(call), jax.vmap(call)):
        assert said(f, ref) == (
            "TypeError: test.operands: operand x: expected an array, got a "
            "Ref; pass what it holds, ref[...]"
        )
    with pytest.raises(TypeError, match=r"operand b: .* a Ref; pass .*\[...\]"):
        jax.jit(lambda r: xla_ffi_kit.modular_add(r, r))(ref)
    ref[...] = op(ref[...])
    np.testing.assert_array_equal(ref[...], np.ones(4))


@dataclasses.dataclass(frozen=True)
class Meters:
    """A value of a type of its own in jaxprs."""

    value: jax.Array


class MetersType(hijax.HiType):
    def __hash__(self):
        return hash(MetersType)

    def __eq__(self, other):
        return isinstance(other, MetersType)

    def lo_ty(self):
        return [hijax.ShapedArray((4,), np.dtype(np.float32))]

    def lower_val(self, meters):
        return [meters.value]

    def raise_val(self, value):
        return Meters(value)

    def to_tangent_aval(self):
        return self


hijax.register_hitype(Meters, lambda _: MetersType())


def test_a_type_of_a_users_own():
    op, meters = operation(), Meters(jnp.arange(4.0))
    with pytest.raises(TypeError, match=r"an array, got .* \(Meters\)"):
        op(meters)
    assert said(jax.jit(op), meters) == (
        "TypeError: test.operands: operand x: expected an array, got a value "
        "of type MetersType; pass the arrays in it"
    )
    with pytest.raises(TypeError, match="operand x: expected an array, got"):
        jax.jit(xla_ffi_kit.relu)(meters)


# --- Operands of the reference's signature ------------------------------------


def test_an_operand_has_no_default():
    op = operation(lambda x, y=1.0: x + y)
    assert str(inspect.signature(op)) == "(x, y, *, implementation=None)"
    assert op(1.0, 2.0) == op(1.0, y=2.0) == 3
    assert said(op, 1.0) == (
        "TypeError: test.operands: operands: expected 2 (x, y), got 1; an "
        "operand has no default, so pass y, or make it a keyword-only "
        "attribute: (x, *, y=1.0)"
    )


def test_an_attribute_that_is_not_keyword_only():
    attributes = {"eps": np.float64}
    assert said(operation, lambda x, eps=1e-6: x, attributes=attributes) == (
        "TypeError: test.operands: attributes: expected those of the "
        "reference's signature, none, got ['eps']; make them keyword-only: (x, "
        "*, eps=1e-06)"
    )
