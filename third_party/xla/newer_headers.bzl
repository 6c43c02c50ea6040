"""FFI headers newer than the floor, which only a test of the examples reads."""

load("//third_party/pypi:pypi_wheel.bzl", "WHEEL_ENV", "fetch_wheel")

_BUILD = """\
filegroup(
    name = "headers",
    srcs = glob(["*.h"]),
    visibility = ["//visibility:public"],
)
"""

def _newer_headers_impl(rctx):
    fetch_wheel(
        rctx,
        rctx.attr.requirement,
        rctx.attr.sha256,
        rctx.attr.python_version,
        "manylinux_2_27_x86_64",
        strip_prefix = "jaxlib/include",
        members = ["xla/ffi/api"],
    )
    rctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % rctx.name)
    rctx.file("xla/ffi/api/BUILD.bazel", _BUILD)

newer_headers = repository_rule(
    doc = """The headers in a jaxlib wheel, as `//xla/ffi/api:headers`.""",
    implementation = _newer_headers_impl,
    attrs = {
        "python_version": attr.string(
            doc = "The Python that the wheel is for. None runs: its headers are read.",
            mandatory = True,
        ),
        "requirement": attr.string(doc = "`jaxlib==version`.", mandatory = True),
        "sha256": attr.string(doc = "The wheel's hash.", mandatory = True),
    },
    environ = WHEEL_ENV,
)
