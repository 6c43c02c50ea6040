"""Lowering rules that call handlers, for packages with rules of their own.

You do not need this module for an `FfiOp`. It is for packages that replace the
lowering of a primitive, JAX's or their own, by a handler. In a rule for
`jax.interpreters.mlir.register_lowering`, call `xla_ffi_kit.register` to make
the handlers known to XLA, `jax.ffi.build_ffi_lowering_function` to build the
custom call, and `annotate` or `annotate_batch` to let XLA partition it over
batch axes that are `divided` by the devices. A call with aliases or a side
effect must not be annotated: XLA would drop them.

Example:
  def lower(ctx, x):
      xla_ffi_kit.register(LIBRARY)
      call = jax.ffi.build_ffi_lowering_function("my.scan")(ctx, x)
      (aval,) = extend.shaped(ctx.avals_in)
      batch = extend.divided(ctx, aval.shape[:-1])
      extend.annotate_batch(call, batch, [aval.shape], [aval.shape])
      return call.results
"""

from xla_ffi_kit._check import is_static
from xla_ffi_kit._jax_hooks import shaped, xla_may_partition
from xla_ffi_kit.rules.partitioning import annotate, annotate_batch, divided

__all__ = [
    "annotate",
    "annotate_batch",
    "divided",
    "is_static",
    "shaped",
    "xla_may_partition",
]
