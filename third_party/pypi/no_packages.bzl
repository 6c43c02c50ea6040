"""What stands for `@pypi` where the codebase has said of no Python packages."""

def _no_packages_impl(_rctx):
    fail("xla_ffi_kit's Python package takes jax, jaxlib and numpy from the " +
         "codebase's own packages: expected in MODULE.bazel " +
         "xla_ffi_kit.packages(lock = ...) or " +
         "override_repo(xla_ffi_kit, pypi = ...), got none")

no_packages = repository_rule(
    doc = "Fails when it is fetched, and says what to declare.",
    implementation = _no_packages_impl,
)
