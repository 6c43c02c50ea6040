load("//xla_ffi:defs.bzl", "xla_ffi_op")

xla_ffi_op(
    name = "@NAME@",
    srcs = ["@NAME@.cc"],
    hdrs = ["@NAME@.h"],@CUDA@
    handlers = {"@TARGET@": "@SYMBOL@Cpu"},
    visibility = ["//visibility:public"],
)
