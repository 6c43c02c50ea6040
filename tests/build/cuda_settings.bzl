"""Rules that read and change //third_party/cuda:compute_capabilities."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load(":with_ffi_api.bzl", "one_file_impl")

_CAPABILITIES = "//third_party/cuda:compute_capabilities"

def _write_capabilities_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name)
    values = ctx.attr._capabilities[BuildSettingInfo].value
    ctx.actions.write(output, "\n".join(values) + "\n")
    return [DefaultInfo(files = depset([output]))]

write_capabilities = rule(
    doc = "A file with the compute capabilities of this build, one to a line.",
    implementation = _write_capabilities_impl,
    attrs = {"_capabilities": attr.label(default = _CAPABILITIES)},
)

def _capabilities_transition_impl(_settings, attr):
    return {_CAPABILITIES: attr.capabilities}

_capabilities_transition = transition(
    implementation = _capabilities_transition_impl,
    inputs = [],
    outputs = [_CAPABILITIES],
)

with_capabilities = rule(
    doc = "One file, built for other GPUs than the rest of the build.",
    implementation = one_file_impl,
    attrs = {
        "capabilities": attr.string_list(
            doc = "The compute capabilities.",
            mandatory = True,
        ),
        "src": attr.label(
            doc = "What is built: one file.",
            cfg = _capabilities_transition,
            mandatory = True,
        ),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
)
