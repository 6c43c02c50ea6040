"""The repository `xla`: the header-only FFI API, and aliases onto a prebuilt XLA.

Its packages have the labels of openxla/xla, so that an embedder's own XLA takes
its place without a changed line. Only a target that depends on an alias fetches
the prebuilt XLA.
"""

load("//third_party/pypi:pypi_wheel.bzl", "WHEEL_ENV", "fetch_wheel")
load(":revision.bzl", "HEADERS_SHA256", "HEADERS_WHEEL", "XLA_COMMIT")

# What programs that call handlers from C++ depend on, by package of openxla/xla.
# All of them are the same library.
_RUNTIME = {
    "xla": ["literal", "literal_util", "shape_util"],
    "xla/client": ["client_library", "local_client"],
    "xla/ffi": ["ffi_api"],
    "xla/hlo/builder": ["xla_builder", "xla_computation"],
    "xla/pjrt/plugin/xla_cpu": ["xla_cpu_pjrt_client"],
}

_ALIAS = """\
alias(
    name = "%s",
    actual = "%s",
    visibility = ["//visibility:public"],
)
"""

# Where the headers come from: "wheel" (default) or "source".
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

def _fetch_headers_source(rctx):
    """Three files out of openxla/xla, each known by its hash.

    The whole archive is 150 MB, and what a code host packs into one changes;
    the files are what is compiled.
    """
    for header, sha256 in HEADERS_SHA256.items():
        rctx.download(
            url = "https://raw.githubusercontent.com/openxla/xla/%s/xla/ffi/api/%s" %
                  (XLA_COMMIT, header),
            output = "xla/ffi/api/" + header,
            sha256 = sha256,
        )

_SOURCES = {
    "source": _fetch_headers_source,
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
    runtime = str(rctx.attr._runtime)
    for package, names in _RUNTIME.items():
        aliases = [_ALIAS % (name, runtime) for name in names]
        rctx.file(package + "/BUILD.bazel", "\n".join(aliases))

xla_headers = repository_rule(
    doc = """The FFI headers at the floor version, from a wheel or from XLA's sources.

Beside them, aliases onto `//third_party/xla:runtime` for C++ programs.

The environment variable XLA_FFI_KIT_HEADERS (`--repo_env`) chooses `wheel`, the
default, or `source`, the files of openxla/xla. Both are the same bytes.""",
    implementation = _xla_headers_impl,
    attrs = {
        "_build_file": attr.label(
            default = "//third_party/xla:headers.BUILD",
            allow_single_file = True,
        ),
        "_runtime": attr.label(default = "//third_party/xla:runtime"),
    },
    environ = WHEEL_ENV + [_SOURCE_ENV],
)
