"""XLA in bzlmod mode, as a repository of this codebase."""

load("@bazel_tools//tools/build_defs/repo:local.bzl", "local_repository")

_PATHS = {
    "tsl": "xla/third_party/tsl",
    "xla": "xla",
}

def _own_impl(mctx):
    for name, path in _PATHS.items():
        local_repository(name = name, path = path)

    # What stubs.py has written.
    for stub in mctx.path(Label("//:BUILD")).dirname.get_child("stubs").readdir():
        local_repository(name = stub.basename, path = "stubs/" + stub.basename)

own = module_extension(
    doc = "Declares `xla`, and what its packages load.",
    implementation = _own_impl,
)
