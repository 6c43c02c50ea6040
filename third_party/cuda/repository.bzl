"""The repository `xla_ffi_kit_cuda`: a CUDA compiler out of PyPI wheels."""

load("//third_party/pypi:pypi_wheel.bzl", "WHEEL_ENV", "fetch_wheel")
load(":versions.bzl", "CUDA_STRIP_PREFIX", "CUDA_WHEELS")

_SERVED = [("linux", "amd64"), ("linux", "x86_64")]

def _cuda_compiler_impl(rctx):
    if (rctx.os.name, rctx.os.arch) not in _SERVED:
        fail(("@%s: the pinned CUDA compiler runs on Linux on x86-64, this is %s " +
              "on %s: build without --config=cuda, or set " +
              "//third_party/cuda:nvcc, nvcc_files and runtime to your own") %
             (rctx.name, rctx.os.name, rctx.os.arch))
    for wheel in CUDA_WHEELS:
        fetch_wheel(
            rctx,
            wheel.requirement,
            wheel.sha256,
            "3.11",  # any: the wheels hold no Python code
            wheel.platform,
            strip_prefix = CUDA_STRIP_PREFIX,
            members = wheel.members,
            file_name = wheel.file_name,
        )
    rctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % rctx.name)
    rctx.symlink(rctx.attr._build_file, "BUILD.bazel")

cuda_compiler = repository_rule(
    doc = """nvcc, its headers and the CUDA runtime, from the wheels in versions.bzl.

105 MB to download; fetched when a target is built that needs it, which without
--config=cuda none does.""",
    implementation = _cuda_compiler_impl,
    attrs = {
        "_build_file": attr.label(
            default = "//third_party/cuda:compiler.BUILD",
            allow_single_file = True,
        ),
    },
    environ = WHEEL_ENV,
)
