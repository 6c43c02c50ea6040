"""A file, built for other GPUs than the rest of the build."""

_FLAG = "//third_party/cuda:compute_capabilities"

_transition = transition(
    implementation = lambda _, attr: {_FLAG: attr.capabilities},
    inputs = [],
    outputs = [_FLAG],
)

def _built_with_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = output, target_file = ctx.files.src[0])
    return [DefaultInfo(files = depset([output]))]

built_with = rule(
    doc = "Builds `src` for some GPUs, under this target's name.",
    implementation = _built_with_impl,
    attrs = {
        "capabilities": attr.string_list(
            doc = "//third_party/cuda:compute_capabilities.",
            mandatory = True,
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
