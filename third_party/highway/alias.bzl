"""Highway under the kit's name where a codebase has it under another.

XLA calls it `highway`, the Bazel Central Registry too; older codebases, and the
kit, call it `com_google_highway`. Two repositories would be two libraries of one
name in a binary.
"""

_TARGETS = {
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
    for package, names in _TARGETS.items():
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
