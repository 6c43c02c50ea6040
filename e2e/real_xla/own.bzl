"""XLA in bzlmod mode, as a repository of this codebase."""

load("@bazel_tools//tools/build_defs/repo:local.bzl", "local_repository")

_PATHS = {
    "tsl": "xla/third_party/tsl",
    "xla": "xla",
}

# What stubs.py writes.
_STUBS = [
    "com_google_protobuf",
    "grpc",
    "local_config_cuda",
    "local_config_remote_execution",
    "local_config_rocm",
    "local_config_sycl",
    "local_config_tensorrt",
    "rules_ml_toolchain",
]

def _own_impl(_mctx):
    for name, path in _PATHS.items():
        local_repository(name = name, path = path)
    for name in _STUBS:
        local_repository(name = name, path = "stubs/" + name)

own = module_extension(
    doc = "Declares `xla`, and what its packages load.",
    implementation = _own_impl,
)
