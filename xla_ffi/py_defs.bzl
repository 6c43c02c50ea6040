"""xla_ffi_py_library(): a Python module with the handler libraries it loads.

Apart from defs.bzl, so that C++ users do not fetch rules_python.
"""

load("@rules_python//python:defs.bzl", "py_library")

def xla_ffi_py_library(
        name,
        srcs,
        cpu = [],
        cuda = [],
        data = [],
        deps = [],
        **kwargs):
    """A `py_library` of operations, with their handler libraries beside them.

    `libraries = HandlerLibrary.beside(__file__, "NAME")` of an `FfiOp` is the pair
    of `NAME_cpu.so` and `NAME_cuda.so`, in runfiles and in every folder to which
    the files are copied together.

    Args:
      name: name of the target.
      srcs: Python sources.
      cpu: shared libraries of `xla_ffi_library` targets of this package, such
        as `["scale_cpu.so"]`.
      cuda: the same for CUDA; they are included only with --config=cuda.
      data: more files that the sources need.
      deps: more Python libraries. It always depends on `xla_ffi_kit` without
        the kit's own kernels; if you use these, add
        `@xla_ffi_kit//python/xla_ffi_kit`.
      **kwargs: passed to the `py_library`.
    """
    py_library(
        name = name,
        srcs = srcs,
        data = data + cpu + select({
            Label("//third_party/cuda:is_enabled"): cuda,
            "//conditions:default": [],
        }),
        deps = deps + [Label("//python/xla_ffi_kit:without_kernels")],
        **kwargs
    )
