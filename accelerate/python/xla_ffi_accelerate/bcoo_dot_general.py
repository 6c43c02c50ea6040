"""Lowers JAX's products of BCOO matrices to the kit's handler."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import jax
import numpy as np
from jax.core import ShapedArray
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_accelerate import _jax_rules, _self_test
from xla_ffi_accelerate import sparse_dot_general as common
from xla_ffi_accelerate._jax import Primitive
from xla_ffi_accelerate._rule import Lowered


class BcooDotGeneral(common.SparseRule):
    """The rule of `jax.experimental.sparse.bcoo_dot_general_p`."""

    TARGET = "xla_ffi_accelerate.bcoo_dot_general"

    def primitive(self) -> Primitive:
        """Of JAX."""
        module = importlib.import_module(self.MODULE)
        return _jax_rules.primitive("bcoo_dot_general_p", module)

    def self_test(self) -> bool:
        """Whether XLA adds rounded products in the order of the elements."""
        from jax.experimental import sparse

        data, indices, rhs = common.elements(50, 40, 500)

        def multiply(
            data: jax.Array, indices: jax.Array, rhs: jax.Array
        ) -> Sequence[object]:
            lhs = sparse.BCOO(
                (data, indices), shape=(50, 40), indices_sorted=True
            )
            return lhs @ rhs, lhs @ rhs[:, 0], lhs.T @ (lhs @ rhs)

        return _self_test.same_bits(self, multiply, data, indices, rhs)

    def covers(
        self,
        avals: Sequence[ShapedArray],
        *,
        dimension_numbers: common.DimensionNumbers,
        lhs_spinfo: common.SparseInfo,
        preferred_element_type: object,
    ) -> bool:
        """Whether the handler adds as XLA's own code does, and sooner."""
        shape = lhs_spinfo.shape
        indices = avals[1].shape
        if indices[-1] != 2 or len(indices) != len(shape):
            return False  # not a matrix, or a batch of them
        if not lhs_spinfo.indices_sorted and _is_vector(
            avals[-1], dimension_numbers
        ):
            # Those of a transposed matrix XLA computes as it multiplies; for a
            # handler they are written first, which takes as long.
            return False
        return common.covers(
            avals, dimension_numbers, preferred_element_type, shape, (0, 1)
        )

    def lower(
        self,
        ctx: LoweringRuleContext,
        *operands: ir.Value,
        dimension_numbers: common.DimensionNumbers,
        lhs_spinfo: common.SparseInfo,
        **_: object,
    ) -> Lowered:
        """Lowers a product that the handler covers."""
        shape = lhs_spinfo.shape
        contracting = dimension_numbers[0][0][0] - (len(shape) - 2)
        return common.lower(
            self.TARGET,
            ctx,
            *operands,
            dimension_numbers=dimension_numbers,
            shape=shape,
            contracting=np.int64(contracting),
        )


def _is_vector(rhs: ShapedArray, numbers: common.DimensionNumbers) -> bool:
    """Whether the product has one column."""
    (_, contracting), (_, batch) = numbers
    summed = (*contracting, *batch)
    return all(n == 1 for i, n in enumerate(rhs.shape) if i not in summed)
