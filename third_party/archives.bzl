"""Archives, pinned by hash: C++ libraries, and the rule sets of WORKSPACE mode.

The rule sets are the oldest with which everything builds and passes.
"""

load("@bazel_tools//tools/build_defs/repo:http.bzl", "http_archive")

RULE_SETS = {
    "bazel_skylib": struct(
        url = "https://github.com/bazelbuild/bazel-skylib/releases/download/1.9.0/bazel-skylib-1.9.0.tar.gz",
        sha256 = "3b5b49006181f5f8ff626ef8ddceaa95e9bb8ad294f7b5d7b11ea9f7ddaf8c59",
        strip_prefix = "",
    ),
    "platforms": struct(
        url = "https://github.com/bazelbuild/platforms/releases/download/0.0.10/platforms-0.0.10.tar.gz",
        sha256 = "218efe8ee736d26a3572663b374a253c012b716d8af0c07e842e82f238a0a7ee",
        strip_prefix = "",
    ),
    "rules_cc": struct(
        url = "https://github.com/bazelbuild/rules_cc/releases/download/0.0.11/rules_cc-0.0.11.tar.gz",
        sha256 = "7e2a1f6c5dd908e6e88d7c80257c99d14e16fa985b56342287fddb6a32c435b5",
        strip_prefix = "rules_cc-0.0.11",
    ),
    "rules_license": struct(
        url = "https://github.com/bazelbuild/rules_license/releases/download/0.0.7/rules_license-0.0.7.tar.gz",
        sha256 = "4531deccb913639c30e5c7512a054d5d875698daeb75d8cf90f284375fe7c360",
        strip_prefix = "",
    ),
    "rules_python": struct(
        url = "https://github.com/bazelbuild/rules_python/releases/download/0.22.1/rules_python-0.22.1.tar.gz",
        sha256 = "a5640fddd4beb03e8c1fde5ed7160c0ba6bd477e7d048661c30c06936a26fd63",
        strip_prefix = "rules_python-0.22.1",
    ),
}

ARCHIVES = {
    "com_google_highway": struct(
        url = "https://github.com/google/highway/archive/refs/tags/1.2.0.tar.gz",
        sha256 = "7e0be78b8318e8bdbf6fa545d2ecb4c90f947df03f7aadc42c1967f019e63343",
        strip_prefix = "highway-1.2.0",
        # Its BUILD files load their rules, which Bazel 9 no longer has built in.
        patches = [Label("//third_party:highway_loads.patch")],
    ),
}

# For the kit's own tests.
DEV_ARCHIVES = {
    "com_google_googletest": struct(
        url = "https://github.com/google/googletest/releases/download/v1.18.0/googletest-1.18.0.tar.gz",
        sha256 = "6e3191c1455468b3fc35a417fb565c1c5071aee1b7e7f85e30cf48a98d37d8b5",
        strip_prefix = "googletest-1.18.0",
    ),
}

def declare_archive(name, archive):
    """Declares one archive as the repository `name`."""
    http_archive(
        name = name,
        patch_args = ["-p1"],
        patches = getattr(archive, "patches", []),
        sha256 = archive.sha256,
        strip_prefix = archive.strip_prefix,
        url = archive.url,
    )

# Highway under the kit's name where a codebase has it under another. XLA calls it
# `highway`, the Bazel Central Registry too; older codebases, and the kit, call it
# `com_google_highway`. Two repositories would be two libraries of one name in a
# binary.
_HIGHWAY_TARGETS = {
    "": ["LICENSE", "algo", "hwy", "math"],
    "hwy/contrib/sort": [
        "order.h",
        "shared-inl.h",
        "sorting_networks-inl.h",
        "traits-inl.h",
        "traits128-inl.h",
        "vqsort-inl.h",
    ],
}

_ALIAS = """
alias(
    name = "{name}",
    actual = "{repository}//{package}:{name}",
    visibility = ["//visibility:public"],
)
"""

def _highway_alias_impl(rctx):
    rctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % rctx.name)
    for package, names in _HIGHWAY_TARGETS.items():
        rctx.file(
            package + "/BUILD.bazel" if package else "BUILD.bazel",
            "".join([
                _ALIAS.format(
                    name = name,
                    package = package,
                    repository = rctx.attr.repository,
                )
                for name in names
            ]),
        )

highway_alias = repository_rule(
    doc = "The targets of Highway that the kit uses, as aliases of another repository's.",
    implementation = _highway_alias_impl,
    attrs = {
        "repository": attr.string(
            doc = "The repository that has them, as `@highway`.",
            mandatory = True,
        ),
    },
)
