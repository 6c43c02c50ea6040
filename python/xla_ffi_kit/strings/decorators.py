"""`inline`, `elementwise` and `rows` make operations from strings of C++."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Literal, Unpack

from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.ffi_op import Decorator, FfiOp, R
from xla_ffi_kit.op import axes as kernel
from xla_ffi_kit.op import declare
from xla_ffi_kit.op.spec import Options
from xla_ffi_kit.strings.cuda import source as cuda_source
from xla_ffi_kit.strings.derive import derivable
from xla_ffi_kit.strings.derive import loops as derivative_loops
from xla_ffi_kit.strings.operation import StringOp, on_cuda
from xla_ffi_kit.strings.text import loops, references, type_questions
from xla_ffi_kit.strings.text.element_types import DTypes, template_arguments
from xla_ffi_kit.strings.text.source import Source, place_of

_KERNEL = 'derivatives="kernel"'


def inline(
    code: str,
    *,
    kernel_axes: int | None = None,
    dtypes: DTypes | None = None,
    function: str | None = None,
    flags: Sequence[str] = (),
    fallback: str | None = None,
    derivatives: Literal["reference", "kernel"] = "reference",
    has_reference: bool = True,
    **options: Unpack[Options],
) -> Decorator:
    """Makes an operation from a reference and a C++ function.

    The decorated function is the reference of an `FfiOp`. It defines what the
    operation computes, and names its operands and attributes. The C++ function
    of the same name computes the operation on CPUs; other platforms run the
    reference.

    The C++ function takes its parameters in the reference's order: `kit::In<T>`
    for an operand, and a number, `bool`, `kit::Array<T>` or `std::string_view`
    for an attribute. It also takes a `kit::Out<T>` for each result, and may
    take a `kit::Threads` to use XLA's threads. Arrays have batch axes in front
    of those that `kernel_axes` counts, so `x.dim(-1)` is the last axis, and
    `x.dim(0)` may be a batch axis. It returns nothing, or a
    `const char*`, which is null on success and the error message otherwise. It
    may also throw.

    The function is compiled once, when the decorator runs. After that, the
    library comes from the cache (`python -m xla_ffi_kit cache`).

    Example:
      @xla_ffi_kit.inline(r'''
      template <typename T>
      void scale(kit::In<T> x, double factor, kit::Out<T> y) {
        for (int64_t i = 0; i < x.size(); ++i) y[i] = T(factor * x[i]);
      }''', dtypes="f32 bf16", kernel_axes=0)
      def scale(x, *, factor=2.0):
          return x * factor

    Args:
      code: the C++ code, which is the function and everything it needs, such
        as includes.
      kernel_axes: the number of trailing axes of every operand that the
        function needs whole; `axes` tells operands apart.
      dtypes: the types for which a function template is instantiated, such as
        "f32 bf16", or "f32,s32" for a template with two parameters. It may
        also be a sequence as `FfiOp` takes it. Leave it out if the function is
        not a template.
      function: the name of the C++ function. It defaults to the reference's.
      flags: options that are passed to the compiler after the kit's own, of
        which `-march=native` is one: `-march=x86-64-v3` replaces it. The linker
        gets those that it needs, such as `-lm` and `-fopenmp`.
      fallback: "reference" runs the reference if there is no compiler. By
        default, a missing compiler is an error.
      derivatives: "reference" takes every derivative from the reference,
        "kernel" from the C++ function, which must be a template: see
        docs/derivatives.md.
      has_reference: whether the decorated function is a reference. If not, it
        is a shape function, which `FfiOp` takes as `results`.
      **options: all other keywords of `FfiOp`.

    Returns:
      A decorator that makes an `FfiOp`, whose handler follows XLA's FFI
      (https://openxla.org/xla/custom_call).

    Raises:
      BuildError: the code does not compile, the cache cannot be written, or
        there is no compiler (NoCompilerError).
      TypeError, ValueError: an option does not fit the reference, as for
        `FfiOp`.
    """
    place = place_of(code, sys._getframe(1))

    def decorate(reference: Callable[..., R]) -> FfiOp[R]:
        symbol, name = references.names(
            reference, function, "the function in C++"
        )
        declare.check_names(name, options)
        operands, attributes = references.parameter_names(reference)
        declared = options.get("attributes") or {}
        source = Source(
            name=name,
            code=code,
            function=symbol,
            instances=template_arguments(name, dtypes),
            operands=operands,
            attributes=tuple(
                a for a in attributes if declared.get(a, str) is not None
            ),
            place=place,
        )
        find = None
        if derivable.check(name, derivatives, options):
            form = _form(name, _KERNEL, "kit::Accumulate<T>", dtypes)
            type_questions.check(name, form, [(code, place)])
            find = derivable.of_inline(source, dtypes, kernel_axes, options)
        return StringOp(
            source,
            reference,
            has_reference,
            flags,
            fallback,
            kernel_axes,
            options,
            find=find,
        ).op()

    return decorate


def elementwise(
    *expressions: str,
    dtypes: DTypes,
    before: str = "",
    flags: Sequence[str] = (),
    fallback: str | None = None,
    platforms: Sequence[str] | None = None,
    derivatives: Literal["reference", "kernel"] = "reference",
    has_reference: bool = True,
    **options: Unpack[Options],
) -> Decorator:
    """Makes an operation from a reference and a C++ expression for each result.

    The expressions use the names of the reference's parameters, and an operand
    stands for one of its elements. All arrays of a call have one shape and one
    dtype. 16-bit floats are computed as 32-bit floats, and the loops are
    distributed over XLA's threads. On CUDA, NVRTC compiles the same expressions
    when the operation is first lowered; JAX's CUDA wheels contain it.

    Example:
      @xla_ffi_kit.elementwise("x * std::tanh(scale * y)", dtypes="f32 bf16")
      def gate(x, y, *, scale=1.0):
          return x * jnp.tanh(scale * y)

    Args:
      *expressions: a C++ expression for each result.
      dtypes: the dtypes that the arrays may have, such as "f32 bf16".
      before: C++ code that is put before the generated function, such as
        includes and helper functions.
      flags: options that are passed to the compiler after the kit's own, of
        which `-march=native` is one: `-march=x86-64-v3` replaces it. The linker
        gets those that it needs, such as `-lm` and `-fopenmp`.
      fallback: "reference" runs the reference if there is no compiler. By
        default, a missing compiler is an error.
      platforms: the platforms, of "cpu" and "cuda", on which the expressions
        must run; the other one runs the reference. By default both run the
        expressions, except that CUDA runs the reference if NVRTC is missing
        or, with a `CudaStringWarning`, if it does not compile them.
      derivatives: "reference" takes every derivative from the reference,
        "kernel" from the C++ code: see docs/derivatives.md.
      has_reference: whether the decorated function is a reference. If not, it
        is a shape function, which `FfiOp` takes as `results`.
      **options: all other keywords of `FfiOp`.

    Returns:
      A decorator that makes an `FfiOp`. Operands and results have one shape of
      any rank and one of `dtypes`.

    Raises:
      BuildError: an expression does not compile, the cache cannot be written,
        or there is no compiler (NoCompilerError).
      TypeError, ValueError: an option does not fit the reference, as for
        `FfiOp`.
    """
    frame = sys._getframe(1)
    places = [place_of(x, frame) for x in expressions if isinstance(x, str)]
    before_place = place_of(before, frame) if before else None

    def decorate(reference: Callable[..., R]) -> FfiOp[R]:
        declared = options.get("attributes") or {}
        parameters = loops.Parameters(reference, len(expressions), declared)
        name = parameters.name
        declare.check_names(name, options)
        if not expressions or len(places) != len(expressions):
            raise TypeError(
                f"{name}: expressions: expected at least one string of C++, "
                f"and only strings, got {list(expressions)}"
            )
        code = loops.Elements(
            parameters, expressions, places, before, before_place
        )
        source = code.source(dtypes)
        kernels = functools.partial(cuda_source.of_elements, code)
        cuda = on_cuda(parameters, kernels, dtypes, flags, platforms)
        find = None
        if derivable.check(name, derivatives, options):
            form = _form(name, _KERNEL, "A", dtypes)
            pieces = [(before, before_place)]
            pieces += zip(expressions, places, strict=True)
            type_questions.check(name, form, pieces)
            find = derivative_loops.of_elements(code, dtypes)
        return StringOp(
            source,
            reference,
            has_reference,
            flags,
            fallback,
            0,
            options,
            cuda,
            find,
        ).op()

    return decorate


def rows(
    body: str,
    *,
    dtypes: DTypes,
    kernel_axes: int | None = None,
    results: str | Sequence[str] = ("out",),
    before: str = "",
    flags: Sequence[str] = (),
    fallback: str | None = None,
    platforms: Sequence[str] | None = None,
    derivatives: Literal["reference", "kernel"] = "reference",
    has_reference: bool = True,
    lanes: bool = False,
    **options: Unpack[Options],
) -> Decorator:
    """Makes an operation from a reference and the C++ code for one row.

    The body uses the names of the reference's parameters and of `results`. In
    the body, an array is its part of one row, with `size()` and `[i]`; an
    operand in `shared` is the whole operand. `T` is the type of the arrays, and
    `A` the type to compute in, which is `float` for 16-bit floats. `return;`
    ends the row. Rows are distributed over XLA's threads. `kit::scan(n, state,
    [&]<typename A>(int64_t i, A& state) { ... })` is a loop that is faster in
    reverse mode.

    On CUDA, NVRTC compiles the same body, and each thread computes one row. If
    all rows take the same steps, write the loop as `kit::for_each(x, out,
    [&](auto v) { return ...; })`, which reads and writes at the speed of the
    GPU's memory.

    Example:
      @xla_ffi_kit.rows(r'''
      A sum = 0;
      for (const T v : x) sum += v * v;
      const A scale = 1 / std::sqrt(sum / x.size() + eps);
      for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale;
      ''', results=["y"], dtypes="f32 bf16")
      def rms_norm(x, *, eps=1e-6):
          ...

    Args:
      body: the C++ code for one row.
      dtypes: the dtypes that the arrays may have, such as "f32 bf16".
      kernel_axes: the number of trailing axes that make a row, 1 by default;
        `axes` tells operands apart.
      results: the names of the results in the body, such as "mean deviation".
        It may also be a sequence.
      before: C++ code that is put before the generated function, such as
        includes and helper functions.
      flags: options that are passed to the compiler after the kit's own, of
        which `-march=native` is one: `-march=x86-64-v3` replaces it. The linker
        gets those that it needs, such as `-lm` and `-fopenmp`.
      fallback: "reference" runs the reference if there is no compiler. By
        default, a missing compiler is an error.
      platforms: the platforms, of "cpu" and "cuda", on which the body must run;
        see `elementwise`.
      derivatives: "reference" takes every derivative from the reference,
        "kernel" from the C++ code: see docs/derivatives.md.
      has_reference: whether the decorated function is a reference. If not, it
        is a shape function, which `FfiOp` takes as `results`.
      lanes: whether CPUs compute several rows at once, in SIMD lanes. `T` and
        `A` are then numbers of several rows, and a body that cannot run so,
        such as one with a branch on data, is an error: see docs/pip.md.
      **options: all other keywords of `FfiOp`.

    Returns:
      A decorator that makes an `FfiOp`. Operands have the shape (..., kernel
      axes), those in `shared` (kernel axes), and results those of the
      reference; all have one of `dtypes`.

    Raises:
      BuildError: the body does not compile, the cache cannot be written, or
        there is no compiler (NoCompilerError).
      TypeError, ValueError: an option does not fit the reference, as for
        `FfiOp`.
    """
    frame = sys._getframe(1)
    place = place_of(body, frame)
    before_place = place_of(before, frame) if before else None

    def decorate(reference: Callable[..., R]) -> FfiOp[R]:
        declared = options.get("attributes") or {}
        parameters = loops.Parameters(reference, results, declared)
        name, operands = parameters.name, parameters.operands
        declare.check_names(name, options)
        axes = options.get("axes")
        trailing = 1 if kernel_axes is None and axes is None else kernel_axes
        counts, *_ = kernel.declared(name, operands, trailing, axes)
        shared = declare.among(
            name, "shared", "operands", options.get("shared") or (), operands
        )
        code = loops.Rows(
            parameters,
            body,
            place,
            counts,
            tuple(map(operands.index, shared)),
            before,
            before_place,
        )
        is_derived = derivable.check(name, derivatives, options)
        for option, is_on in (("lanes=True", lanes), (_KERNEL, is_derived)):
            if is_on:
                form = _form(name, option, "A", dtypes)
                pieces = [(before, before_place), (body, place)]
                type_questions.check(name, form, pieces)
        source = code.source(dtypes, lanes)
        kernels = functools.partial(cuda_source.of_rows, code)
        cuda = on_cuda(parameters, kernels, dtypes, flags, platforms)
        find = None
        if is_derived:
            aliases = options.get("aliases") or {}
            find = derivative_loops.of_rows(code, dtypes, lanes, aliases)
        return StringOp(
            source,
            reference,
            has_reference,
            flags,
            fallback,
            trailing,
            options,
            cuda,
            find,
        ).op()

    return decorate


def _form(
    name: str, option: str, number: str, dtypes: DTypes | None
) -> type_questions.Form:
    """What a string is compiled for, besides its value row by row."""
    types = ", ".join(template_arguments(name, dtypes))
    if "std::complex" in types:
        remedy = "leave it out for those, in an operation of their own"
        if option == _KERNEL:
            remedy += ", which has the reference's derivatives, or jvp="
        raise BuildError(
            f"{name}: {option}: expected dtypes of real numbers, got {types}; "
            f"{remedy}"
        )
    has_halves = "kit::bf16" in types or "kit::f16" in types
    return type_questions.Form(option, number, has_halves)
