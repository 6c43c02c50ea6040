"""The rules of an operation's primitive, each a function of its spec."""

from __future__ import annotations

import functools

from jax.interpreters import ad, mlir
from jax.interpreters.batching import fancy_primitive_batchers

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit.op.spec import OpSpec
from xla_ffi_kit.rules import (
    abstract_eval,
    batching,
    lowering,
)
from xla_ffi_kit.rules import ad as derivatives


def install(spec: OpSpec) -> None:
    """Gives the primitive its rules; you may repeat it."""
    primitive, rule = spec.primitive, functools.partial
    primitive.def_effectful_abstract_eval(
        rule(abstract_eval.abstract_eval, spec)
    )
    _jax_hooks.define_eager_call(primitive)
    ad.primitive_jvps[primitive] = rule(derivatives.jvp, spec)
    if spec.linear:
        ad.primitive_transposes[primitive] = rule(derivatives.transpose, spec)
    # Those in `primitive_batchers` are not told the axis.
    fancy_primitive_batchers[primitive] = rule(batching.batch, spec)
    for lower, platform in lowering.rules(spec):
        mlir.register_lowering(primitive, lower, platform=platform)
