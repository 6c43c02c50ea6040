"""The repository `xla_ffi_kit_cuda`: a CUDA compiler out of PyPI wheels.

Pinned by version and hash, together they are a complete compiler for Linux on
x86-64, and what `pip install jax[cuda13]` brings. A machine needs neither them nor
a GPU, and they are fetched by the first build with --config=cuda.
"""

load("//third_party/pypi:pypi_wheel.bzl", "WHEEL_ENV", "fetch_wheel")

# The folder of the wheels that becomes the repository's root.
_STRIP_PREFIX = "nvidia/cu13"

# NVRTC of each CUDA that JAX has wheels for: the repository -> the wheel.
NVRTC_WHEELS = {
    "nvrtc_cuda12": struct(
        requirement = "nvidia-cuda-nvrtc-cu12==12.9.86",
        sha256 = "210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4",
        platform = "manylinux_2_12_x86_64",
        file_name = "nvidia_cuda_nvrtc_cu12-12.9.86-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
    ),
    "nvrtc_cuda13": struct(
        requirement = "nvidia-cuda-nvrtc==13.0.88",
        sha256 = "ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575",
        platform = "manylinux_2_12_x86_64",
        file_name = "nvidia_cuda_nvrtc-13.0.88-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
    ),
}

_WHEELS = [
    struct(
        requirement = "nvidia-cuda-nvcc==13.0.88",
        sha256 = "56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03",
        platform = "manylinux_2_17_x86_64",
        file_name = "nvidia_cuda_nvcc-13.0.88-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        members = [
            "bin",
            "include",
        ],
    ),
    struct(
        requirement = "nvidia-cuda-crt==13.0.88",
        sha256 = "2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4",
        platform = "manylinux_2_17_x86_64",
        file_name = "nvidia_cuda_crt-13.0.88-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        members = ["include"],
    ),
    struct(
        requirement = "nvidia-nvvm==13.0.88",
        sha256 = "c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0",
        platform = "manylinux_2_12_x86_64",
        file_name = "nvidia_nvvm-13.0.88-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
        members = ["nvvm"],
    ),
    struct(
        requirement = "nvidia-cuda-runtime==13.0.96",
        sha256 = "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
        platform = "manylinux_2_17_x86_64",
        file_name = "nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        members = [
            "include",
            "lib/libcudart_static.a",
        ],
    ),
    struct(
        requirement = "nvidia-cuda-cccl==13.0.85",
        sha256 = "e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649",
        platform = "manylinux_2_17_x86_64",
        file_name = "nvidia_cuda_cccl-13.0.85-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        members = ["include/nv"],  # what <cuda_fp16.h> includes
    ),
]

_SERVED = [("linux", "amd64"), ("linux", "x86_64")]

def _cuda_compiler_impl(rctx):
    if (rctx.os.name, rctx.os.arch) not in _SERVED:
        fail(("@%s: the pinned CUDA compiler runs on Linux on x86-64, this is %s " +
              "on %s: build without --config=cuda, or set " +
              "//third_party/cuda:nvcc, nvcc_files and runtime to your own") %
             (rctx.name, rctx.os.name, rctx.os.arch))
    for wheel in _WHEELS:
        fetch_wheel(
            rctx,
            wheel.requirement,
            wheel.sha256,
            "3.11",  # any: the wheels hold no Python code
            wheel.platform,
            strip_prefix = _STRIP_PREFIX,
            members = wheel.members,
            file_name = wheel.file_name,
        )
    rctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % rctx.name)
    rctx.symlink(rctx.attr._build_file, "BUILD.bazel")

cuda_compiler = repository_rule(
    doc = """nvcc, its headers and the CUDA runtime, from the wheels above.

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
