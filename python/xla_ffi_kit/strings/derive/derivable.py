"""What `elementwise`, `rows` and `inline` do for `derivatives="kernel"`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np

from xla_ffi_kit import _check, _dtypes
from xla_ffi_kit._check import Typed
from xla_ffi_kit.library.signature import Signature
from xla_ffi_kit.op import axes as kernel
from xla_ffi_kit.op import declare
from xla_ffi_kit.op.spec import (
    Advanced,
    Options,
    each,
    flatten,
)
from xla_ffi_kit.strings.cuda.kernel import LoopKernel
from xla_ffi_kit.strings.derive import cuda as derivative_cuda
from xla_ffi_kit.strings.derive.derivatives import Differentiable, is_float
from xla_ffi_kit.strings.derive.function import (
    Attributes,
    Body,
    DifferentiableCode,
    Find,
)
from xla_ffi_kit.strings.derive.inline import InlineBody, Instance, refuse
from xla_ffi_kit.strings.derive.kernel import Load, String
from xla_ffi_kit.strings.derive.loops import LoopBody
from xla_ffi_kit.strings.text import element_types
from xla_ffi_kit.strings.text.element_types import DTypes
from xla_ffi_kit.strings.text.source import OWN, Source


def check(name: str, derivatives: object, options: Options) -> bool:
    """Whether they are the kernel's, which not every option allows."""
    if derivatives not in ("reference", "kernel"):
        raise ValueError(
            f"{name}: derivatives: expected 'reference' or 'kernel', got "
            f"{derivatives!r}"
        )
    if derivatives == "reference":
        return False
    _check_advanced(name, options.get("advanced") or Advanced())
    linear = each(options.get("linear", ()))
    if len(linear) > 1:
        rule = "derivatives='kernel'"
        raise ValueError(declare.linear_together(name, rule, linear))
    return True


def differentiable(
    code: tuple[Body, DifferentiableCode] | None,
    decorated: Callable[..., object],
    attributes: Attributes,
    flags: Sequence[str],
    has_fallback: bool,
    has_reference: bool,
    load: Load,
    cuda_kernel: LoopKernel | None = None,
) -> Differentiable | None:
    """What makes the operations that are derivatives.

    Args:
      code: the string, and its code; None if it takes no floats.
      decorated: the function that the author decorated.
      attributes: the types of the attributes.
      flags: the author's flags.
      has_fallback: whether the reference runs without a compiler.
      has_reference: whether `decorated` is one, and not a shape function.
      load: compiles a source, or takes it from the cache.
      cuda_kernel: what runs on CUDA, if something does.
    """
    if code is None:
        return None
    body, function = code
    on_cuda = shapes = None
    if isinstance(body, LoopBody) and body.rows is None and cuda_kernel:
        on_cuda = functools.partial(derivative_cuda.kernel, body, cuda_kernel)
    if isinstance(body, InlineBody) and body.hidden:
        shapes = functools.partial(
            _shapes, body, function, decorated, has_reference
        )
    string = String(
        body, decorated, attributes, flags, has_fallback, load, on_cuda, shapes
    )
    reference = decorated if has_reference else None
    results = None if has_reference else decorated
    return Differentiable(string, function, reference, results)


def of_inline(
    source: Source,
    dtypes: DTypes | None,
    kernel_axes: int | None,
    options: Options,
) -> Find:
    """The function of `inline`, of which the signature tells the types."""
    name = source.name
    if dtypes is None:
        expected = "a function template and dtypes=, for 'kernel'"
        raise refuse(name, expected, "a function of fixed types")
    counts, *_ = kernel.declared(
        name, source.operands, kernel_axes, options.get("axes")
    )
    shared = declare.among(
        name, "shared", "operands", options.get("shared") or (), source.operands
    )
    indices = tuple(map(source.operands.index, shared))
    aliases = options.get("aliases") or {}

    def find(
        signature: Signature | None, attributes: Attributes
    ) -> tuple[Body, DifferentiableCode] | None:
        if signature is None:
            return None
        body = _body(source, dtypes, signature, attributes, aliases)
        return None if body is None else (body, body.code_of(counts, indices))

    return find


def _check_advanced(name: str, advanced: Advanced) -> None:
    """Refuses what a derivative of each row cannot follow."""
    for what, is_given in (
        ("vmap_method='expand_dims'", advanced.vmap_method == "expand_dims"),
        ("shared_results", _check_given(advanced.shared_results)),
        ("input_layouts", bool(advanced.input_layouts)),
        ("output_layouts", bool(advanced.output_layouts)),
        ("workspace", bool(advanced.workspace)),
    ):
        if is_given:
            raise refuse(name, f"'reference' beside {what}", "'kernel'")


def _check_given(results: object) -> bool:
    return not isinstance(results, tuple | list) or bool(results)


def _body(
    source: Source,
    dtypes: DTypes,
    signature: Signature,
    attributes: Attributes,
    aliases: Mapping[str, str | int],
) -> InlineBody | None:
    arrays = (*signature.operands, *signature.results)
    of_arrays = zip(*(array.dtypes for array in arrays), strict=True)
    arguments = element_types.template_arguments(source.name, dtypes)
    instances: dict[tuple[int, ...], list[Instance]] = {}
    for argument, short in zip(arguments, of_arrays, strict=True):
        names = tuple(_dtypes.SHORT_NAMES[name] for name in short)
        floats = tuple(i for i, n in enumerate(names) if is_float(n))
        types = tuple(
            element_types.cpp_type(_dtypes.parse("", n)) for n in names
        )
        instance = Instance(tuple(argument.split(", ")), names, types)
        count = len(signature.operands)
        if floats and floats[0] < count <= floats[-1]:
            instances.setdefault(floats, []).append(instance)
    if not instances:
        return None
    if len(instances) > 1:
        expected = "floats as the same operands and results for all dtypes"
        raise refuse(source.name, expected, dtypes)
    ((floats, of_floats),) = instances.items()
    results = [result.name for result in signature.results]
    return InlineBody(
        code=source,
        attributes={
            name: element_types.cpp_attribute(name, attributes[name])
            for name in source.attributes  # as the function takes them
        },
        instances=tuple(of_floats),
        floats=floats,
        outs=len(results),
        aliases={
            source.operands.index(operand): result
            if isinstance(result, int)
            else results.index(result)
            for operand, result in aliases.items()
        },
    )


def _shapes(
    body: InlineBody,
    function: DifferentiableCode,
    decorated: Callable[..., object],
    has_reference: bool,
    operands: Sequence[Typed],
    attributes: Mapping[str, object],
) -> dict[str, object]:
    """The shapes, after their ranks, of results that derivatives lack."""
    rows = [
        jax.ShapeDtypeStruct(
            x.shape[len(x.shape) - len(operand.letters) :], x.dtype
        )
        for operand, x in zip(function.operands, operands, strict=False)
    ]
    call = functools.partial(decorated, **attributes)
    types = flatten(
        jax.eval_shape(call, *rows) if has_reference else call(*rows)
    )
    shapes: dict[str, object] = {}
    for k in body.hidden:
        shape = types[k].shape
        if not _check.is_static(shape):
            raise ValueError(
                f"{body.name}: expected known sizes in a derivative of a "
                f"function with results that are no floats, got {shape}"
            )
        shapes[f"{OWN}shape{k}"] = np.array([len(shape), *shape], np.int64)
    return shapes
