"""hip_library(): the cc_library of HIP sources, compiled by the machine's hipcc."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("@rules_cc//cc:defs.bzl", "CcInfo")
load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("//third_party/cuda:device_library.bzl", "DEVICE_ATTRS", "HEADERS", "compile_device_source", "device_library", "host_flags")

# The `target_compatible_with` of what needs ROCm: skipped without
# `--config=rocm`.
ROCM_ONLY = select({
    Label("//third_party/rocm:is_enabled"): [Label("//third_party/cc:machines")],
    "//conditions:default": [Label("@platforms//:incompatible")],
})

# Sources that are CUDA's and HIP's alike have CUDA's suffix.
HIP_SOURCES = [".hip", ".hip.cc", ".cu", ".cu.cc"]

def _compile(ctx, toolchain, context, source, headers):
    """Declares the compilation of one source; returns the object."""
    standard, host = host_flags(ctx)
    args = ctx.actions.args()
    args.add_all(["-x", "hip", standard, "-O3"])
    args.add_all(
        ctx.attr._architectures[BuildSettingInfo].value,
        format_each = "--offload-arch=%s",
    )
    args.add_all(host)
    hipcc = struct(program = ctx.file._hipcc, files = depset())
    return compile_device_source(
        ctx,
        toolchain,
        args,
        hipcc,
        context,
        source,
        headers,
        "HipCompile",
    )

def _hip_library_impl(ctx):
    return device_library(ctx, HIP_SOURCES, _compile)

hip_library = rule(
    doc = """A C++ library of HIP sources, compiled by the machine's hipcc.

Sources are compiled for the GPUs in //third_party/rocm:architectures.""",
    implementation = _hip_library_impl,
    attrs = DEVICE_ATTRS | {
        "srcs": attr.label_list(
            doc = "HIP sources, and headers that only they include.",
            allow_files = HIP_SOURCES + HEADERS,
        ),
        "_architectures": attr.label(
            default = "//third_party/rocm:architectures",
        ),
        "_hipcc": attr.label(
            default = "@xla_ffi_kit_rocm//:hipcc",
            allow_single_file = True,
            cfg = "exec",
        ),
        "_runtime": attr.label(
            default = "@xla_ffi_kit_rocm//:runtime",
            providers = [CcInfo],
        ),
    },
    fragments = ["cpp"],
    provides = [CcInfo],
    toolchains = use_cc_toolchain(),
)
