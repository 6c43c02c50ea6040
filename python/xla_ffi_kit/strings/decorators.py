"""`inline`: an operation from a reference and a function in C++."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Unpack

from xla_ffi_kit.primitive.ffi_op import Decorator, FfiOp, R
from xla_ffi_kit.primitive.spec import Options
from xla_ffi_kit.strings import (
    cpp,
    cuda_source,
    loops,
    operation,
    references,
)
from xla_ffi_kit.strings.element_types import DTypes, template_arguments
from xla_ffi_kit.strings.errors import BuildError
from xla_ffi_kit.strings.places import place_of
from xla_ffi_kit.strings.source import Source

# Compiled only for this machine; part of the cache's key.
_NATIVE = ("-march=native",)


def inline(
    code: str,
    *,
    kernel_axes: int | Sequence[int],
    dtypes: DTypes | None = None,
    function: str | None = None,
    flags: Sequence[str] = _NATIVE,
    fallback: str | None = None,
    **options: Unpack[Options],
) -> Decorator:
    """Makes an operation of a reference and a function in C++.

    The decorated function is the reference of an `FfiOp`: it defines what the
    operation computes, and the names of operands and attributes. The C++
    function of the same name computes it on CPUs. Its parameters stand in the
    order of the reference's: `kit::In<T>` for an operand, a number, `bool`,
    `kit::Array<T>` or `std::string_view` for an attribute; and for each result
    a `kit::Out<T>`. A `kit::Threads` among them gives it XLA's threads. It
    returns nothing, or a `const char*`: null or what is wrong. It may throw.

    It is compiled when the decorator runs, once: see `python -m xla_ffi_kit
    cache`.

    Example:
      @xla_ffi_kit.inline(r'''
      template <typename T>
      void scale(kit::In<T> x, double factor, kit::Out<T> y) {
        for (int64_t i = 0; i < x.size(); ++i) y[i] = T(factor * x[i]);
      }''', dtypes="f32 bf16", kernel_axes=0)
      def scale(x, *, factor=2.0):
          return x * factor

    Args:
      code: the C++ code: the function, and whatever it needs before it.
      kernel_axes: as for `FfiOp`.
      dtypes: names such as "f32 bf16" to instantiate a function template with,
        "f32,s32" for a template with two parameters; or a sequence as `FfiOp`
        takes it. None for a plain function.
      function: the C++ function's name; default: the reference's.
      flags: options of the compiler after the kit's own.
      fallback: "reference" to run the reference where there is no compiler,
        which is an error otherwise.
      **options: everything else that `FfiOp` takes.

    Raises:
      BuildError: the code does not compile, there is no compiler, or the cache
        cannot be written.
    """
    place = place_of(code, sys._getframe(1))

    def decorate(reference: Callable[..., R]) -> FfiOp[R]:
        called = references.name_of(reference) if function is None else function
        last = called.rpartition("::")[2]
        name = references.name_of(reference, last or "lambda")
        if not cpp.is_function(called):
            raise BuildError(
                f"{name}: function: expected the name of the function in C++, "
                f"got {called!r}; pass it as function="
            )
        operands, attributes = references.parameter_names(reference)
        source = Source(
            name=name,
            code=code,
            function=called,
            instances=template_arguments(name, dtypes),
            operands=operands,
            attributes=tuple(attributes),
            place=place,
        )
        return operation.make(
            source, reference, flags, fallback, kernel_axes, options
        )

    return decorate


def elementwise(
    *expressions: str,
    dtypes: DTypes,
    before: str = "",
    flags: Sequence[str] = _NATIVE,
    fallback: str | None = None,
    platforms: Sequence[str] | None = None,
    **options: Unpack[Options],
) -> Decorator:
    """Makes an operation of a reference and a C++ expression per result.

    The expressions use the names of the reference's parameters; operands are
    numbers there. 16-bit floats are computed with as floats, and loops are
    spread over XLA's threads. All arrays have one shape and one dtype. On CUDA
    NVRTC, which JAX brings along, compiles the same expressions when they are
    first lowered there.

    Example:
      @xla_ffi_kit.elementwise("x * std::tanh(scale * y)", dtypes="f32 bf16")
      def gate(x, y, *, scale=1.0):
          return x * jnp.tanh(scale * y)

    Args:
      *expressions: one for each result.
      dtypes: names such as "f32 bf16".
      before: C++ code before the loop's function: includes, functions.
      flags: as for `inline`, and so are `fallback` and `options`.
      fallback: see there.
      platforms: of "cpu" and "cuda", those where the expressions must run; the
        reference runs on the other one. Default: both, but the reference on
        CUDA where NVRTC is missing or, with a warning, does not compile them.
      **options: see there.
    """
    frame = sys._getframe(1)
    places = [place_of(x, frame) for x in expressions if isinstance(x, str)]
    before_place = place_of(before, frame) if before else None

    def decorate(reference: Callable[..., R]) -> FfiOp[R]:
        declared = options.get("attributes") or {}
        loop = loops.Loop(reference, len(expressions), declared)
        if not expressions or len(places) != len(expressions):
            raise TypeError(
                f"{loop.name}: expressions: expected at least one string of "
                f"C++, and only strings, got {list(expressions)}"
            )
        code = loops.elementwise(loop, expressions, before, places)
        source = loop.source(code, dtypes, before_place)
        kernels = cuda_source.Elements(
            loop, expressions, places, before, before_place
        )
        on_cuda = operation.on_cuda(loop, kernels, dtypes, flags, platforms)
        return operation.make(
            source, reference, flags, fallback, 0, options, on_cuda
        )

    return decorate


def rows(
    body: str,
    *,
    dtypes: DTypes,
    kernel_axes: int | Sequence[int] = 1,
    results: Sequence[str] = ("out",),
    before: str = "",
    flags: Sequence[str] = _NATIVE,
    fallback: str | None = None,
    platforms: Sequence[str] | None = None,
    **options: Unpack[Options],
) -> Decorator:
    """Makes an operation of a reference and the C++ code for one row.

    The body uses the names of the reference's parameters and of `results`;
    arrays are their part of one row there, with `size()` and `[i]`, T is the
    arrays' type and A the type to compute in, float for 16-bit floats. Rows are
    spread over XLA's threads. An operand in `shared` is whole in every row.

    On CUDA, where NVRTC compiles the same body, a thread has a row. If every
    row takes the same steps, `kit::for_each(x, out, [&](auto v) { return ...;
    })` reads and writes at the memory's speed there.

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
      body: the C++ code.
      dtypes: names such as "f32 bf16".
      kernel_axes: as for `FfiOp`: how many trailing axes make a row.
      results: names of the results.
      before: C++ code before the loop's function: includes, functions.
      flags: as for `inline`, and so are `fallback` and `options`.
      fallback: see there.
      platforms: as for `elementwise`.
      **options: see there.
    """
    frame = sys._getframe(1)
    place = place_of(body, frame)
    before_place = place_of(before, frame) if before else None

    def decorate(reference: Callable[..., R]) -> FfiOp[R]:
        declared = options.get("attributes") or {}
        loop = loops.Loop(reference, results, declared)
        shared = options.get("shared", ())
        code = loops.rows(loop, body, kernel_axes, shared, before, place)
        source = loop.source(code, dtypes, before_place)
        axes = loops.axes_of_each(loop, kernel_axes)
        kernels = cuda_source.Rows(
            loop, body, place, axes, tuple(shared), before, before_place
        )
        on_cuda = operation.on_cuda(loop, kernels, dtypes, flags, platforms)
        return operation.make(
            source, reference, flags, fallback, kernel_axes, options, on_cuda
        )

    return decorate
