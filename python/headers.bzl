"""header_folder(): the headers that the Python package carries."""

load("@rules_cc//cc:defs.bzl", "CcInfo")

# What C++ includes begin with; headers of other libraries are not ours to give.
_PREFIXES = ("xla/ffi/api/", "xla_ffi/")

def _header_folder_impl(ctx):
    headers = depset(transitive = [
        dep[CcInfo].compilation_context.headers
        for dep in ctx.attr.deps
    ])
    links = []
    for header in headers.to_list() + ctx.files.srcs:
        path = header.short_path
        if path.startswith("../"):
            path = path.split("/", 2)[2]
        if path.startswith(_PREFIXES):
            link = ctx.actions.declare_file("%s/%s" % (ctx.label.name, path))
            ctx.actions.symlink(output = link, target_file = header)
            links.append(link)
    return [DefaultInfo(
        files = depset(links),
        runfiles = ctx.runfiles(links),
    )]

header_folder = rule(
    doc = """Puts headers into a folder, where `#include` expects them.

The FFI's and the kit's of `deps`, and of what these depend on.""",
    implementation = _header_folder_impl,
    attrs = {
        "deps": attr.label_list(
            doc = "The C++ libraries whose headers are public.",
            mandatory = True,
            providers = [CcInfo],
        ),
        "srcs": attr.label_list(
            doc = "C++ sources that are compiled with those that include " +
                  "the headers.",
            allow_files = [".cc"],
        ),
    },
)
