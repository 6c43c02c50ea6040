"""The kernels of the derivatives of `elementwise` on CUDA."""

from __future__ import annotations

import dataclasses

import numpy as np

from xla_ffi_kit.strings import cuda_source, element_types
from xla_ffi_kit.strings.cuda_kernel import LoopKernel
from xla_ffi_kit.strings.derivative_function import OF, OWN, STRUCT, Function
from xla_ffi_kit.strings.derivative_loops import LoopBody
from xla_ffi_kit.strings.source import Place


def kernel(body: LoopBody, own: LoopKernel, function: Function) -> LoopKernel:
    """The kernel of a derivative, given that of the string.

    It is compiled when a program is lowered, by what compiles that one.
    """
    return dataclasses.replace(
        own,
        name=function.name,
        sources=_Elements(body, function),
        operands=len(function.operands),
    )


@dataclasses.dataclass(frozen=True)
class _Elements:
    """Writes the kernel for each dtype."""

    body: LoopBody
    function: Function

    def of(self, dtype: np.dtype[np.generic]) -> cuda_source.Kernel:
        """The kernel for arrays of a dtype."""
        body, function = self.body, self.function
        cpp = element_types.cpp_type(dtype)
        types = {
            name: cuda_source.on_devices(type_)
            for name, type_ in body.attributes.items()
        }
        operands, results = len(function.operands), function.outs
        parameters = [
            *(f"kit::In<{cpp}> {OWN}in{i}" for i in range(operands)),
            *(f"{type_} {OF}{name}" for name, type_ in types.items()),
            *(f"kit::Out<{cpp}> {OWN}out{k}" for k in range(results)),
            f"int64_t {OWN}items",
        ]
        given = ", ".join(f"const __grid_constant__ {p}" for p in parameters)
        members = "".join(f"{t} {OF}{n};\n" for n, t in types.items())
        ins = ", ".join(f"{OWN}in{i}.data()" for i in range(operands))
        outs = ", ".join(f"{OWN}out{k}.data()" for k in range(results))
        here = Place(f"<derivative of {body.name}>", 1)
        place = body.place.directive() if body.place else ""
        text = (
            '#include "xla_ffi/inline/cuda/kit.h"\n'
            '#include "xla_ffi/inline/derived_elements.h"\n'
            f"{place}{body.before}\n{here.directive()}"
            f"struct {STRUCT} {{\n{members}{body.text}}};\n"
            f'extern "C" __global__ void __launch_bounds__('
            f"{cuda_source.THREADS}) {cuda_source.SYMBOL}({given}) {{\n"
            f"using T = {cpp};\n"
            f"const {function.cpp} {OWN}function = {function.make};\n"
            f"const T* const {OWN}ins[] = {{{ins}}};\n"
            f"T* const {OWN}outs[] = {{{outs}}};\n"
            f"kit::ForElements({OWN}items, {OWN}ins, {OWN}outs, "
            f"[&](const T* {OWN}in, T* {OWN}out) {{\n"
            f"kit::DeriveElement({OWN}function, {OWN}in, {OWN}out);\n"
            "});\n}\n"
        )
        return cuda_source.elements(text, dtype)
