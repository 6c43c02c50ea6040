"""A file, built with other flags than the rest of the build."""

_FLAGS = {
    "capabilities": "//third_party/cuda:compute_capabilities",
    "ffi_api": "//third_party/xla:ffi_api",
}

def _transition_impl(settings, attr):
    return {
        flag: getattr(attr, name) or settings[flag]
        for name, flag in _FLAGS.items()
    }

_transition = transition(
    implementation = _transition_impl,
    inputs = _FLAGS.values(),
    outputs = _FLAGS.values(),
)

def _built_with_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = output, target_file = ctx.files.src[0])
    return [DefaultInfo(files = depset([output]))]

built_with = rule(
    doc = "Builds `src`, with the flags that are named, under this target's name.",
    implementation = _built_with_impl,
    attrs = {
        "capabilities": attr.string_list(
            doc = "GPUs: //third_party/cuda:compute_capabilities.",
        ),
        "ffi_api": attr.label(
            doc = "FFI headers: //third_party/xla:ffi_api.",
        ),
        "src": attr.label(
            doc = "What is built: one file.",
            cfg = _transition,
            mandatory = True,
        ),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
)
