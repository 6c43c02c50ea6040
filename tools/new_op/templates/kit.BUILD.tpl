load("//xla_ffi:defs.bzl", "xla_ffi_library")

package(default_visibility = ["//visibility:public"])

xla_ffi_library(
    name = "@NAME@",
    srcs = ["@NAME@.cc"],
    handlers = {"@TARGET@": "@SYMBOL@Cpu"},
    deps = ["//xla_ffi/core:handler"],
)@CUDA@
