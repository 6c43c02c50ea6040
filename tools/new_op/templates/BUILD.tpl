load("@rules_python//python:defs.bzl", "py_test")
load("@xla_ffi_kit//xla_ffi:defs.bzl", "xla_ffi_op")
load("@xla_ffi_kit//xla_ffi:py_defs.bzl", "xla_ffi_py_library")

xla_ffi_op(
    name = "@NAME@_cpu",
    srcs = ["@NAME@.cc"],
    hdrs = ["@NAME@.h"],@CUDA@
    handlers = {"@TARGET@": "@SYMBOL@Cpu"},
)

xla_ffi_py_library(
    name = "@NAME@",
    srcs = ["@NAME@.py"],
    cpu = ["@NAME@_cpu.so"],@CUDA_DATA@
    imports = ["."],
)

py_test(
    name = "@NAME@_test",
    srcs = ["@NAME@_test.py"],
    env = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"},
    legacy_create_init = 0,  # else @xla_ffi_kit hides the package xla_ffi_kit
    deps = [
        ":@NAME@",
        "@xla_ffi_kit//python/xla_ffi_kit:testing",
    ],
)
