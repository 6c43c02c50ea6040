"""The C++ sources of the operations that a handler library consists of."""

_OpSourcesInfo = provider(
    doc = "Sources of operations in a target and its dependencies.",
    fields = {"files": "depset of File"},
)

def _collect_impl(target, ctx):
    files = []
    if target.label.package.startswith(("xla_ffi/ops/", "accelerate/kernels/")):
        for attribute in ["srcs", "hdrs"]:
            files += [
                file
                for file in getattr(ctx.rule.files, attribute, [])
                if file.is_source
            ]
    below = getattr(ctx.rule.attr, "deps", [])
    if getattr(ctx.rule.attr, "library", None):  # of an xla_ffi_library
        below = below + [ctx.rule.attr.library]
    return [_OpSourcesInfo(files = depset(files, transitive = [
        dep[_OpSourcesInfo].files
        for dep in below
        if _OpSourcesInfo in dep
    ]))]

_collect = aspect(implementation = _collect_impl, attr_aspects = ["deps", "library"])

def _op_sources_impl(ctx):
    files = depset(transitive = [
        library[_OpSourcesInfo].files
        for library in ctx.attr.libraries
    ])
    runfiles = ctx.runfiles(transitive_files = files)
    return [DefaultInfo(files = files, runfiles = runfiles)]

op_sources = rule(
    doc = "All sources of the operations in some handler libraries.",
    implementation = _op_sources_impl,
    attrs = {
        "libraries": attr.label_list(
            doc = "Handler libraries: targets of `xla_ffi_library`.",
            aspects = [_collect],
        ),
    },
)
