"""cuda_library(): the cc_library of CUDA sources, compiled by nvcc.

The nvcc, its files and the runtime are label flags of //third_party/cuda.
"""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("@rules_cc//cc:defs.bzl", "CcInfo", "cc_common")
load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cpp_toolchain", "use_cc_toolchain")

# The `target_compatible_with` of what needs CUDA: skipped without
# `--config=cuda`. nvcc calls the machine's compiler.
CUDA_ONLY = select({
    Label("//third_party/cuda:is_enabled"): [Label("//third_party/cc:machines")],
    "//conditions:default": [Label("@platforms//:incompatible")],
})

# Suffixes of what nvcc compiles; all other sources are headers.
CUDA_SOURCES = [".cu", ".cu.cc"]

# What the pinned nvcc compiles for: `nvcc --list-gpu-code`, and the variants with
# features of one architecture ("a") or of one family ("f").
_COMPUTE_CAPABILITIES = "75 80 86 87 88 89 90 90a".split(" ") + [
    number + variant
    for number in "100 103 110 120 121".split(" ")
    for variant in ["", "a", "f"]
]

_HEADERS = [".h", ".hpp", ".cuh", ".inc"]

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
        if capability not in _COMPUTE_CAPABILITIES:
            fail("//third_party/cuda:compute_capabilities: the pinned nvcc does " +
                 "not know %r: write some of %s" %
                 (capability, ",".join(_COMPUTE_CAPABILITIES)))
        newest = max(newest, int(capability.rstrip("af")))
        flags.append("-gencode=arch=compute_%s,code=sm_%s" % (capability, capability))
    if not flags:
        fail("//third_party/cuda:compute_capabilities: expected at least one")

    # PTX of 90a would run on 9.0 alone; that of 90 on everything newer.
    return flags + ["-gencode=arch=compute_%d,code=compute_%d" % (newest, newest)]

def _compile(ctx, toolchain, context, source, headers):
    """Declares the compilation of one source; returns the object."""
    output = ctx.actions.declare_file("_cuda/%s/%s.o" % (
        ctx.label.name,
        source.short_path.replace("../", "").replace("/", "_"),
    ))

    # Debug information has the folder of the sandbox in it; see also PWD below.
    host = ["-fPIC", "-ffile-prefix-map=/proc/self/cwd=."]
    standard = "-std=c++17"
    for option in ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts:
        if option.startswith("-std="):
            standard = option
        else:
            host.append(option)
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
    args.add_all(["-c", source, "-o", output])
    args.add_all(context.defines, format_each = "-D%s")
    args.add_all(ctx.attr.local_defines, format_each = "-D%s")
    args.add_all(context.includes, before_each = "-I")
    args.add_all(context.quote_includes, before_each = "-I")
    for includes in [context.system_includes, context.external_includes]:
        args.add_all(includes, before_each = "-isystem")
    args.add_all(ctx.attr.copts)
    ctx.actions.run(
        executable = ctx.file._nvcc,
        arguments = [args],
        inputs = depset(
            [source],
            transitive = [headers, ctx.attr._nvcc_files[DefaultInfo].files],
        ),
        tools = toolchain.all_files,
        outputs = [output],
        env = {"PWD": "/proc/self/cwd"},
        use_default_shell_env = True,
        mnemonic = "CudaCompile",
        progress_message = "Compiling CUDA %s" % source.short_path,
        toolchain = None,
    )
    return output

def _cuda_library_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    infos = [dep[CcInfo] for dep in ctx.attr.deps + [ctx.attr._runtime]]
    sources = [
        file
        for file in ctx.files.srcs
        if file.path.endswith(tuple(CUDA_SOURCES))
    ]
    private_headers = [file for file in ctx.files.srcs if file not in sources]
    root = ctx.label.workspace_root
    own = cc_common.create_compilation_context(
        defines = depset(ctx.attr.defines),
        headers = depset(ctx.files.hdrs),
        quote_includes = depset([
            root or ".",
            ctx.bin_dir.path + ("/" + root if root else ""),
        ]),
    )
    public = cc_common.merge_compilation_contexts(
        compilation_contexts = [own] + [info.compilation_context for info in infos],
    )
    headers = depset(private_headers, transitive = [public.headers])
    objects = depset([
        _compile(ctx, toolchain, public, source, headers)
        for source in sources
    ])
    linking_context, linking_outputs = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        alwayslink = ctx.attr.alwayslink,
        cc_toolchain = toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(
            objects = objects,
            pic_objects = objects,
        ),
        disallow_dynamic_library = True,
        feature_configuration = features,
        linking_contexts = [info.linking_context for info in infos],
    )
    library = linking_outputs.library_to_link
    archives = [
        file
        for file in ([library.static_library, library.pic_static_library] if library else [])
        if file
    ]
    return [
        DefaultInfo(files = depset(archives)),
        CcInfo(compilation_context = public, linking_context = linking_context),
    ]

_cuda_library = rule(
    doc = "The rule behind cuda_library().",
    implementation = _cuda_library_impl,
    attrs = {
        "alwayslink": attr.bool(doc = "As for cc_library."),
        "copts": attr.string_list(doc = "Options of nvcc, after all others."),
        "defines": attr.string_list(doc = "As for cc_library."),
        "deps": attr.label_list(
            doc = "C++ and CUDA libraries.",
            providers = [CcInfo],
        ),
        "hdrs": attr.label_list(
            doc = "Headers that others include.",
            allow_files = _HEADERS,
        ),
        "local_defines": attr.string_list(doc = "As for cc_library."),
        "srcs": attr.label_list(
            doc = "CUDA sources, and headers that only they include.",
            allow_files = CUDA_SOURCES + _HEADERS,
        ),
        "_compute_capabilities": attr.label(
            default = "//third_party/cuda:compute_capabilities",
        ),
        # Not of the `exec` configuration, in which Bazel 10 resets flags: these
        # are files that nothing builds.
        "_nvcc": attr.label(
            default = "//third_party/cuda:nvcc",
            allow_single_file = True,
        ),
        "_nvcc_files": attr.label(default = "//third_party/cuda:nvcc_files"),
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

    Sources are compiled for the GPUs in //third_party/cuda:compute_capabilities
    by //third_party/cuda:nvcc, the host's part by the C++ toolchain's compiler.
    Objects are always position-independent, and bit for bit the same from run to
    run.

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
