"""The kernels of the derivatives of `elementwise` on CUDA."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from xla_ffi_kit.strings.cuda import source as cuda_source
from xla_ffi_kit.strings.cuda.kernel import LoopKernel
from xla_ffi_kit.strings.derive import function as derivative_function
from xla_ffi_kit.strings.derive.function import DifferentiableCode
from xla_ffi_kit.strings.derive.loops import LoopBody
from xla_ffi_kit.strings.text import element_types
from xla_ffi_kit.strings.text.source import OWN


def kernel(
    body: LoopBody, string: LoopKernel, function: DifferentiableCode
) -> LoopKernel:
    """The kernel of a derivative, made like that of the string.

    It is compiled when a program is lowered, by what compiles that one.
    """
    return dataclasses.replace(
        string,
        name=function.name,
        sources=functools.partial(_kernel, body, function),
        operands=len(function.operands),
    )


def _kernel(
    body: LoopBody, function: DifferentiableCode, dtype: np.dtype[np.generic]
) -> cuda_source.CudaSource:
    """The kernel for arrays of a dtype."""
    cpp = element_types.cpp_type(dtype)
    types = {
        name: cuda_source.on_devices(type_)
        for name, type_ in body.attributes.items()
    }
    operands, results = len(function.operands), len(function.outs)
    parameters = [
        *derivative_function.parameters(
            [cpp] * operands, types, [cpp] * results
        ),
        f"int64_t {OWN}items",
    ]
    parameter_list = ", ".join(
        f"const __grid_constant__ {p}" for p in parameters
    )
    ins = ", ".join(f"{OWN}in{i}.data()" for i in range(operands))
    outs = ", ".join(f"{OWN}out{k}.data()" for k in range(results))
    text = (
        '#include "xla_ffi/strings/cuda/kit.h"\n'
        '#include "xla_ffi/strings/derive/derived_elements.h"\n'
        f"{body.struct(types)}"
        f'extern "C" __global__ void __launch_bounds__('
        f"{cuda_source.THREADS}) {cuda_source.SYMBOL}({parameter_list}) {{\n"
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
