"""Lowers JAX's products of BCSR matrices to the kit's handler."""

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


class BcsrDotGeneral(common.SparseRule):
    """The rule of `jax.experimental.sparse.bcsr_dot_general_p`."""

    TARGET = "xla_ffi_accelerate.bcsr_dot_general"

    def primitive(self) -> Primitive:
        """Of JAX."""
        # It is not among the names of the package.
        module = importlib.import_module(f"{self.MODULE}.bcsr")
        return _jax_rules.primitive("bcsr_dot_general_p", module)

    def self_test(self) -> bool:
        """Whether XLA adds rounded products in the order of the elements."""
        from jax.experimental import sparse

        data, places, rhs = common.elements(50, 40, 500)
        indptr = np.searchsorted(places[:, 0], np.arange(51)).astype(np.int32)

        def multiply(
            data: jax.Array,
            indices: jax.Array,
            indptr: jax.Array,
            rhs: jax.Array,
        ) -> Sequence[object]:
            lhs = sparse.BCSR((data, indices, indptr), shape=(50, 40))
            return lhs @ rhs, lhs @ rhs[:, 0]

        return _self_test.same_bits(
            self, multiply, data, places[:, 1], indptr, rhs
        )

    def covers(
        self,
        avals: Sequence[ShapedArray],
        *,
        dimension_numbers: common.DimensionNumbers,
        lhs_spinfo: common.SparseInfo,
        preferred_element_type: object,
    ) -> bool:
        """Whether the handler adds as XLA's own code does, and sooner."""
        _, indices, indptr, _ = avals
        shape = lhs_spinfo.shape
        return (
            indices.dtype == indptr.dtype
            and len(indices.shape) == len(shape) - 1
            and common.covers(
                avals, dimension_numbers, preferred_element_type, shape, (1,)
            )
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
        return common.lower(
            self.TARGET,
            ctx,
            *operands,
            dimension_numbers=dimension_numbers,
            shape=lhs_spinfo.shape,
        )
