"""The one place the kit takes `cuda_library` from.

A codebase that has a CUDA toolchain of its own, such as XLA's
`@local_config_cuda` or rules_cuda, puts its `cuda_library` here; attributes
used are name, srcs, hdrs, deps, copts, testonly and visibility.
"""

load(":cuda_library.bzl", _CUDA_ONLY = "CUDA_ONLY", _cuda_library = "cuda_library")

# target_compatible_with of what needs CUDA: skipped without --config=cuda.
CUDA_ONLY = _CUDA_ONLY

cuda_library = _cuda_library
