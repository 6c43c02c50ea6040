xla_ffi_library(
    name = "@NAME@_cuda",
    srcs = ["@NAME@.cu.cc"],
    handlers = {"@TARGET@": "@SYMBOL@Cuda"},
    platform = "CUDA",
    deps = ["@KIT@//xla_ffi/core/cuda:handler"],
)
