"""What a rule for the sources of GPUs shares with others: contexts and archive."""

load("@rules_cc//cc:defs.bzl", "CcInfo", "cc_common")
load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cpp_toolchain")

HEADERS = [".h", ".hpp", ".cuh", ".inc"]

# Those that mean the same in every such rule.
DEVICE_ATTRS = {
    "alwayslink": attr.bool(doc = "As for cc_library."),
    "copts": attr.string_list(doc = "Options of the compiler, after all others."),
    "defines": attr.string_list(doc = "As for cc_library."),
    "deps": attr.label_list(
        doc = "C++ and GPU libraries.",
        providers = [CcInfo],
    ),
    "hdrs": attr.label_list(
        doc = "Headers that others include.",
        allow_files = HEADERS,
    ),
    "local_defines": attr.string_list(doc = "As for cc_library."),
}

def host_flags(ctx):
    """Splits the command line's C++ options: the standard, and all others."""
    options = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts
    standard = "-std=c++17"

    # Debug information has the folder of the sandbox in it; see also PWD below.
    host = ["-fPIC", "-ffile-prefix-map=/proc/self/cwd=."]
    for option in options:
        if option.startswith("-std="):
            standard = option
        else:
            host.append(option)
    return standard, host

def compile_device_source(ctx, toolchain, args, compiler, context, source, headers, mnemonic):
    """Declares the compilation of one source; returns the object.

    Args:
      ctx: of the rule.
      toolchain: the C++ toolchain.
      args: the compiler's options, less source, output and context.
      compiler: struct: its `program`, a file, and its `files`, a depset.
      context: the compilation context.
      source: the file.
      headers: depset of what it may include.
      mnemonic: such as `CudaCompile`.

    Returns:
      The object file.
    """
    output = ctx.actions.declare_file("_%s/%s/%s.o" % (
        mnemonic.removesuffix("Compile").lower(),
        ctx.label.name,
        source.short_path.replace("../", "").replace("/", "_"),
    ))
    args.add_all(["-c", source, "-o", output])
    args.add_all(context.defines, format_each = "-D%s")
    args.add_all(ctx.attr.local_defines, format_each = "-D%s")
    args.add_all(context.includes, before_each = "-I")
    args.add_all(context.quote_includes, before_each = "-I")
    for includes in [context.system_includes, context.external_includes]:
        args.add_all(includes, before_each = "-isystem")
    args.add_all(ctx.attr.copts)
    ctx.actions.run(
        executable = compiler.program,
        arguments = [args],
        inputs = depset([source], transitive = [headers, compiler.files]),
        tools = toolchain.all_files,
        outputs = [output],
        env = {"PWD": "/proc/self/cwd"},
        use_default_shell_env = True,
        mnemonic = mnemonic,
        progress_message = "Compiling %s %s" %
                           (mnemonic.removesuffix("Compile"), source.short_path),
        toolchain = None,
    )
    return output

def device_library(ctx, suffixes, compile):
    """The providers of a library of GPU sources.

    Args:
      ctx: of the rule; it has DEVICE_ATTRS, `srcs` and `_runtime`.
      suffixes: of sources; all other files in `srcs` are private headers.
      compile: function of (ctx, toolchain, context, source, headers) that
        returns the object.

    Returns:
      DefaultInfo and CcInfo.
    """
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    infos = [dep[CcInfo] for dep in ctx.attr.deps + [ctx.attr._runtime]]
    sources = [file for file in ctx.files.srcs if file.path.endswith(tuple(suffixes))]
    private_headers = [file for file in ctx.files.srcs if file not in sources]
    own = cc_common.create_compilation_context(
        defines = depset(ctx.attr.defines),
        headers = depset(ctx.files.hdrs),
        quote_includes = depset([
            ctx.label.workspace_root or ".",
            ctx.bin_dir.path + ("/" + ctx.label.workspace_root if ctx.label.workspace_root else ""),
        ]),
    )
    public = cc_common.merge_compilation_contexts(
        compilation_contexts = [own] + [info.compilation_context for info in infos],
    )
    headers = depset(private_headers, transitive = [public.headers])
    objects = depset([
        compile(ctx, toolchain, public, source, headers)
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
