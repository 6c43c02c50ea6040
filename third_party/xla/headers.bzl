"""The repository `xla` with nothing but the header-only FFI API in it.

Its package `xla/ffi/api` has the labels of openxla/xla, so that an embedder's
own XLA takes its place without a changed line.
"""

load("//third_party/pypi:pypi_wheel.bzl", "WHEEL_ENV", "fetch_wheel")
load(":revision.bzl", "HEADERS_ARCHIVE", "HEADERS_WHEEL")

# Where the headers come from: "wheel" (default) or "archive".
_SOURCE_ENV = "XLA_FFI_KIT_HEADERS"

def _fetch_headers_wheel(rctx):
    fetch_wheel(
        rctx,
        HEADERS_WHEEL.requirement,
        HEADERS_WHEEL.sha256,
        HEADERS_WHEEL.python_version,
        HEADERS_WHEEL.platform,
        strip_prefix = "jaxlib/include",
        members = ["xla/ffi/api"],
    )

def _fetch_headers_archive(rctx):
    rctx.download_and_extract(
        url = HEADERS_ARCHIVE.url,
        sha256 = HEADERS_ARCHIVE.sha256,
        stripPrefix = HEADERS_ARCHIVE.strip_prefix + "/xla/ffi/api",
        output = "xla/ffi/api",
    )

_SOURCES = {
    "archive": _fetch_headers_archive,
    "wheel": _fetch_headers_wheel,
}

def _xla_headers_impl(rctx):
    source = rctx.os.environ.get(_SOURCE_ENV) or "wheel"
    if source not in _SOURCES:
        fail("%s=%s: expected one of %s" %
             (_SOURCE_ENV, source, sorted(_SOURCES)))
    _SOURCES[source](rctx)
    rctx.file("WORKSPACE", "workspace(name = \"xla\")\n")
    rctx.symlink(rctx.attr._build_file, "xla/ffi/api/BUILD.bazel")

xla_headers = repository_rule(
    doc = """The FFI headers at the floor version, from a wheel or an archive.

The environment variable XLA_FFI_KIT_HEADERS (`--repo_env`) chooses `wheel`, the
default, or `archive`, the sources of openxla/xla. Both hold the same bytes.""",
    implementation = _xla_headers_impl,
    attrs = {
        "_build_file": attr.label(
            default = "//third_party/xla:headers.BUILD",
            allow_single_file = True,
        ),
    },
    environ = WHEEL_ENV + [_SOURCE_ENV],
)
