"""CUDA libraries for tests that run on the CPU."""

load("@rules_cc//cc:defs.bzl", "cc_library")

def emulated_cuda_library(name, srcs, deps = [], **kwargs):
    """A cuda_library's sources, compiled for the emulator of CUDA kernels.

    It defines what the cuda_library defines, and so takes its place in a test.
    Handlers that launch the kernels may be among the sources.

    Args:
      name: name of the target.
      srcs: .cu.cc files, C++ files and headers.
      deps: without those that need CUDA: see emulated_handler of
        //xla_ffi/core/cuda.
      **kwargs: as for a cc_library.
    """
    cc_library(
        name = name,
        testonly = True,
        srcs = srcs,
        # Assertions are for the emulator alone; so are pragmas for nvcc.
        copts = [
            "-UNDEBUG",
            "-Wno-unknown-pragmas",
        ],
        local_defines = ["__CUDACC__"],
        deps = deps + [Label("//xla_ffi/testing/cuda:runtime")],
        **kwargs
    )
