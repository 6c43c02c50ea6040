"""Archives, pinned by hash: C++ libraries, and the rule sets of WORKSPACE mode.

The rule sets have the versions that tools/install_bazel.sh brings, so that what
is tested where only Debian's packages can be reached is what ships.
"""

load("@bazel_tools//tools/build_defs/repo:http.bzl", "http_archive")

RULE_SETS = {
}

ARCHIVES = {
    "com_google_googletest": struct(
        url = "",
        sha256 = "",
        strip_prefix = "",
    ),
    "com_google_highway": struct(
        url = "https://github.com/google/highway/archive/refs/tags/1.2.0.tar.gz",
        sha256 = "7e0be78b8318e8bdbf6fa545d2ecb4c90f947df03f7aadc42c1967f019e63343",
        strip_prefix = "highway-1.2.0",
    ),
}

def declare_archive(name, archive):
    """Declares one entry of RULE_SETS or ARCHIVES as the repository `name`."""
    http_archive(
        name = name,
        sha256 = archive.sha256,
        strip_prefix = archive.strip_prefix,
        url = archive.url,
    )
