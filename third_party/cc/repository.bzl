"""The repository `xla_ffi_kit_cc`: a C++ compiler out of a PyPI wheel."""

load("//third_party/pypi:pypi_wheel.bzl", "WHEEL_ENV", "fetch_wheel")

_REQUIREMENT = "ziglang==0.17.1"

# By the architecture of the machine that builds, as Java calls it.
_WHEELS = {
    "aarch64": struct(
        sha256 = "b7c5f02fccd40f89b999ee16a1f5ddced56e6182370f8affe494bcf8a28cf07e",
        platforms = "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    ),
    "amd64": struct(
        sha256 = "ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54",
        platforms = "manylinux_2_12_x86_64.manylinux2010_x86_64.musllinux_1_1_x86_64",
    ),
}

# Of 19,540 files those that Linux with glibc needs on the two architectures.
_MEMBERS = ["LICENSE", "zig"] + ["lib/" + name for name in [
    "c",
    "c.zig",
    "compiler",
    "compiler_rt",
    "compiler_rt.zig",
    "include",
    "libc/glibc",
    "libc/include/aarch64-linux-any",
    "libc/include/aarch64-linux-gnu",
    "libc/include/any-linux-any",
    "libc/include/generic-glibc",
    "libc/include/x86-linux-any",
    "libc/include/x86-linux-gnu",
    "libcxx",
    "libcxxabi",
    "libunwind",
    "std",
    "ubsan_rt.zig",
]]

# Programs that Bazel asks a toolchain for, and which file each is.
_TOOLS = {
    "ar": "tool.sh",
    "clang": "tool.sh",
    "ld.lld": "ld.lld.sh",
}

def _cc_compiler_impl(rctx):
    wheel = _WHEELS.get(rctx.os.arch)
    if rctx.os.name != "linux" or not wheel:
        fail(("@%s: the pinned C++ compiler runs on Linux on x86-64 and ARM64, " +
              "this is %s on %s: build with the machine's own, for no platform " +
              "of //third_party/cc") %
             (rctx.name, rctx.os.name, rctx.os.arch))
    fetch_wheel(
        rctx,
        _REQUIREMENT,
        wheel.sha256,
        "3.11",  # any: the wheel's Python code is not used
        wheel.platforms.split(".")[0],
        strip_prefix = "ziglang",
        members = _MEMBERS,
        file_name = "ziglang-0.17.1-py3-none-%s.whl" % wheel.platforms,
    )
    rctx.execute(["chmod", "+x", "zig"])
    for tool, file in _TOOLS.items():
        rctx.symlink(Label("//third_party/cc:" + file), "bin/" + tool)
    for file in ["runtime.sh", "toolchain.bzl"]:
        rctx.symlink(Label("//third_party/cc:" + file), file)
    rctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % rctx.name)
    rctx.symlink(rctx.attr._build_file, "BUILD.bazel")

cc_compiler = repository_rule(
    doc = """clang, lld, libc++ and every glibc's symbols, from the wheel of Zig.

100 MB to download; fetched when a target is built for a platform of
//third_party/cc.""",
    implementation = _cc_compiler_impl,
    attrs = {
        "_build_file": attr.label(
            default = "//third_party/cc:compiler.BUILD",
            allow_single_file = True,
        ),
    },
    environ = WHEEL_ENV,
)
