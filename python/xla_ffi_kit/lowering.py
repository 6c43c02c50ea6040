"""Lowering rules that call handlers, for packages with rules of their own.

An `FfiOp` needs none of it. This is for packages that replace the lowering of a
primitive, JAX's or their own, by a handler: in a rule of
`jax.interpreters.mlir.register_lowering`, `register` makes the handler known
to XLA, `jax.ffi.build_ffi_lowering_function` builds the custom call, and
`annotate` or `annotate_batch` lets XLA partition it.

Example:
  def lower(ctx, x):
      lowering.register(LIBRARY, "my.scan")
      call = jax.ffi.build_ffi_lowering_function("my.scan")(ctx, x)
      (aval,) = lowering.shaped(ctx.avals_in)
      lowering.annotate_batch(call, aval.shape[:-1], [aval.shape], [aval.shape])
      return call.results
"""

from xla_ffi_kit._check import is_static
from xla_ffi_kit._jax_hooks import shaped, xla_may_partition
from xla_ffi_kit.library.registration import register
from xla_ffi_kit.primitive.sharding import annotate, annotate_batch

__all__ = [
    "annotate",
    "annotate_batch",
    "is_static",
    "register",
    "shaped",
    "xla_may_partition",
]
