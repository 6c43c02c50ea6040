"""A file, built against other FFI headers than the rest of the build."""

_FFI_API = "//third_party/xla:ffi_api"

def _headers_transition_impl(_settings, attr):
    return {_FFI_API: attr.ffi_api}

_headers_transition = transition(
    implementation = _headers_transition_impl,
    inputs = [],
    outputs = [_FFI_API],
)

def one_file_impl(ctx):
    """Passes on the one file that `src` builds, under this target's name.

    Args:
      ctx: the context of a rule whose `src` has a transition.

    Returns:
      The providers.
    """
    output = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = output, target_file = ctx.files.src[0])
    return [DefaultInfo(files = depset([output]))]

with_ffi_api = rule(
    doc = "Builds `src` with the label flag //third_party/xla:ffi_api set.",
    implementation = one_file_impl,
    attrs = {
        "ffi_api": attr.label(
            doc = "What the label flag is set to.",
            mandatory = True,
        ),
        "src": attr.label(
            doc = "What is built: one file.",
            cfg = _headers_transition,
            mandatory = True,
        ),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
)
