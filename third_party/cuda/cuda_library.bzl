"""cuda_library(): the cc_library of CUDA sources, compiled by the pinned nvcc."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("@rules_cc//cc:defs.bzl", "CcInfo")
load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load(":device_library.bzl", "DEVICE_ATTRS", "HEADERS", "compile_device_source", "device_library", "host_flags")
load(":versions.bzl", "CUDA_COMPUTE_CAPABILITIES")

# The `target_compatible_with` of what needs CUDA: skipped without
# `--config=cuda`. nvcc calls the machine's compiler.
CUDA_ONLY = select({
    Label("//third_party/cuda:is_enabled"): [Label("//third_party/cc:machines")],
    "//conditions:default": [Label("@platforms//:incompatible")],
})

_SOURCES = [".cu", ".cu.cc"]

def architecture_flags(capabilities):
    """nvcc's -gencode flags: machine code for each GPU, PTX for the newest.

    Args:
      capabilities: compute capabilities such as "80", "90a" or "100".

    Returns:
      A list of flags.
    """
    newest = 0
    flags = []
    for capability in capabilities:
        if capability not in CUDA_COMPUTE_CAPABILITIES:
            fail("//third_party/cuda:compute_capabilities: the pinned nvcc does " +
                 "not know %r: write some of %s" %
                 (capability, ",".join(CUDA_COMPUTE_CAPABILITIES)))
        newest = max(newest, int(capability.rstrip("af")))
        flags.append("-gencode=arch=compute_%s,code=sm_%s" % (capability, capability))
    if not flags:
        fail("//third_party/cuda:compute_capabilities: expected at least one")

    # PTX of 90a would run on 9.0 alone; that of 90 on everything newer.
    return flags + ["-gencode=arch=compute_%d,code=compute_%d" % (newest, newest)]

def _compile(ctx, toolchain, context, source, headers):
    """Declares the compilation of one source; returns the object."""
    standard, host = host_flags(ctx)
    args = ctx.actions.args()
    args.add_all(["-x", "cu"])
    args.add("-ccbin", toolchain.compiler_executable)
    args.add_all([standard, "-O3", "-cudart=static", "--compress-mode=size"])

    # Names of temporary files and of internal symbols are random otherwise.
    args.add("-objtemp")
    args.add(source.short_path, format = "-frandom-seed=%s")

    # The names of what is in an unnamed namespace are made of the source's real
    # path, which is that of the clone. The front ends take their last option.
    args.add(source.short_path, format = "-Xcudafe=--orig_src_path_name=%s")
    args.add_all(architecture_flags(
        ctx.attr._compute_capabilities[BuildSettingInfo].value,
    ))
    args.add_all(host, format_each = "-Xcompiler=%s")
    nvcc = struct(
        program = ctx.file._nvcc,
        files = ctx.attr._compiler_files.files,
    )
    return compile_device_source(
        ctx,
        toolchain,
        args,
        nvcc,
        context,
        source,
        headers,
        "CudaCompile",
    )

def _cuda_library_impl(ctx):
    return device_library(ctx, _SOURCES, _compile)

_cuda_library = rule(
    doc = "The rule behind cuda_library().",
    implementation = _cuda_library_impl,
    attrs = DEVICE_ATTRS | {
        "srcs": attr.label_list(
            doc = "CUDA sources, and headers that only they include.",
            allow_files = _SOURCES + HEADERS,
        ),
        "_compiler_files": attr.label(
            default = "@xla_ffi_kit_cuda//:compiler_files",
            cfg = "exec",
        ),
        "_compute_capabilities": attr.label(
            default = "//third_party/cuda:compute_capabilities",
        ),
        "_nvcc": attr.label(
            default = "@xla_ffi_kit_cuda//:bin/nvcc",
            allow_single_file = True,
            cfg = "exec",
        ),
        "_runtime": attr.label(
            default = "//third_party/cuda:runtime",
            providers = [CcInfo],
        ),
    },
    fragments = ["cpp"],
    provides = [CcInfo],
    toolchains = use_cc_toolchain(),
)

def cuda_library(name, target_compatible_with = None, **kwargs):
    """A C++ library of CUDA sources; skipped without --config=cuda.

    Sources are compiled for the GPUs in //third_party/cuda:compute_capabilities,
    the host's part by the C++ toolchain's compiler. Objects are always
    position-independent, and bit for bit the same from run to run.

    Args:
      name: name of the target.
      target_compatible_with: in place of CUDA_ONLY.
      **kwargs: srcs, hdrs, deps, copts, defines, local_defines and alwayslink as
        for a cc_library, and what every rule takes.
    """
    if target_compatible_with == None:
        target_compatible_with = CUDA_ONLY
    _cuda_library(
        name = name,
        target_compatible_with = target_compatible_with,
        **kwargs
    )
