"""A stand-in for a codebase's own XLA: its package names and labels.

The FFI headers are those that the kit pins; a define tells the two apart. All
else is the prebuilt XLA of the kit's own tests.
"""

load("@xla_ffi_kit//third_party/pypi:pypi_wheel.bzl", "WHEEL_ENV", "fetch_wheel")
load("@xla_ffi_kit//third_party/xla:revision.bzl", "HEADERS_WHEEL")

_FFI_API = """
load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])

cc_library(
    name = "c_api",
    hdrs = ["c_api.h"],
    defines = ["XLA_OF_THE_CODEBASE=1"],
)

cc_library(
    name = "ffi",
    hdrs = ["api.h", "ffi.h"],
    deps = [":c_api"],
)
"""

_ALIAS = """
alias(
    name = "%s",
    actual = "@xla_ffi_kit//third_party/xla:runtime",
    visibility = ["//visibility:public"],
)
"""

# XLA's packages and their targets that are used here.
_PREBUILT = {
    "xla/client": "client_library",
    "xla/hlo/builder": "xla_builder",
}

def _xla_stand_in_impl(rctx):
    fetch_wheel(
        rctx,
        HEADERS_WHEEL.requirement,
        HEADERS_WHEEL.sha256,
        HEADERS_WHEEL.python_version,
        HEADERS_WHEEL.platform,
        strip_prefix = "jaxlib/include",
        members = ["xla/ffi/api"],
    )
    rctx.file("WORKSPACE", "workspace(name = \"xla\")\n")
    rctx.file("xla/ffi/api/BUILD", _FFI_API)
    for package, target in _PREBUILT.items():
        rctx.file(package + "/BUILD", _ALIAS % target)

xla_stand_in = repository_rule(
    implementation = _xla_stand_in_impl,
    environ = WHEEL_ENV,
)

def _own_impl(_mctx):
    xla_stand_in(name = "xla")

own = module_extension(
    doc = "Declares `xla`, this codebase's own.",
    implementation = _own_impl,
)
