"""The FFI headers a second time, in a repository of another name.

The header parity test builds the handler library against both.
"""

_HEADERS = ["api.h", "c_api.h", "ffi.h"]

def _xla_header_copy_impl(rctx):
    for header in _HEADERS:
        original = rctx.path(Label("@xla//xla/ffi/api:" + header))
        rctx.file("xla/ffi/api/" + header, rctx.read(original))
    rctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % rctx.name)
    rctx.symlink(rctx.attr._build_file, "xla/ffi/api/BUILD.bazel")

xla_header_copy = repository_rule(
    doc = "A copy of the headers of `@xla`, as files of its own.",
    implementation = _xla_header_copy_impl,
    attrs = {
        "_build_file": attr.label(
            default = "//third_party/xla:headers.BUILD",
            allow_single_file = True,
        ),
    },
)
