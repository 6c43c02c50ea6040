"""`python_3_11_host` in WORKSPACE mode; newer rules_python declares it itself."""

# (os, architecture) of this machine -> how rules_python's repositories call it.
_TRIPLES = {
    ("linux", "aarch64"): "aarch64-unknown-linux-gnu",
    ("linux", "amd64"): "x86_64-unknown-linux-gnu",
    ("linux", "x86_64"): "x86_64-unknown-linux-gnu",
    ("mac os x", "aarch64"): "aarch64-apple-darwin",
    ("mac os x", "x86_64"): "x86_64-apple-darwin",
}

def _host_python_impl(rctx):
    machine = (rctx.os.name, rctx.os.arch)
    if machine not in _TRIPLES:
        fail("--config=hermetic_python: rules_python has no Python for %s on %s: build without it" %
             machine)
    repository = "@%s_%s" % (rctx.attr.base_name, _TRIPLES[machine])
    rctx.symlink(Label(repository + "//:bin/python3"), "python")
    rctx.file("BUILD.bazel", "exports_files([\"python\"])\n")

host_python = repository_rule(
    doc = "The Python that python_register_toolchains() declares for this machine.",
    implementation = _host_python_impl,
    attrs = {
        "base_name": attr.string(
            doc = "The name that python_register_toolchains() was given.",
            mandatory = True,
        ),
    },
)
