"""hermetic_cc_toolchain(): clang, lld and libc++ as a C++ toolchain of Bazel.

The tools of Zig's wheel are called as what they are, and not by way of
`zig c++`: that would write into a cache, turn -O3 into -O2 and add options of
its own. What it would pass for a target is spelled out here.
"""

load(
    "@rules_cc//cc:action_names.bzl",
    "ALL_CC_COMPILE_ACTION_NAMES",
    "ALL_CC_LINK_ACTION_NAMES",
    "ALL_CPP_COMPILE_ACTION_NAMES",
    "CPP_LINK_DYNAMIC_LIBRARY_ACTION_NAME",
    "CPP_LINK_EXECUTABLE_ACTION_NAME",
)
load("@rules_cc//cc:cc_toolchain_config_lib.bzl", "feature", "flag_group", "flag_set", "tool_path", "with_feature_set")
load("@rules_cc//cc:defs.bzl", "cc_common", "cc_toolchain")

# The oldest glibc that what is built loads with: that of manylinux2014.
GLIBC = "2.17"

# What Zig's names of an architecture's system headers begin with.
LINUX = {
    "aarch64": "aarch64",
    "x86_64": "x86",
}

# In the order in which #include_next passes through them.
_HEADERS = [
    "include",
    "libc/include/%s-linux-gnu",
    "libc/include/generic-glibc",
    "libc/include/%s-linux-any",
    "libc/include/any-linux-any",
]
_CXX_HEADERS = ["libcxx/include", "libcxxabi/include"]

# As Zig configures the libc++ that it builds.
_LIBCXX = [
    "_LIBCPP_ABI_NAMESPACE=__1",
    "_LIBCPP_ABI_VERSION=1",
    "_LIBCPP_ASSERTION_SEMANTIC_DEFAULT=_LIBCPP_ASSERTION_SEMANTIC_IGNORE",
    "_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS",
    "_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE",
    "_LIBCPP_HAS_FILESYSTEM=1",
    "_LIBCPP_HAS_LOCALIZATION",
    "_LIBCPP_HAS_MONOTONIC_CLOCK",
    "_LIBCPP_HAS_MUSL_LIBC=0",
    "_LIBCPP_HAS_NO_STD_MODULES",
    "_LIBCPP_HAS_RANDOM_DEVICE",
    "_LIBCPP_HAS_TERMINAL",
    "_LIBCPP_HAS_THREADS=1",
    "_LIBCPP_HAS_TIME_ZONE_DATABASE",
    "_LIBCPP_HAS_UNICODE",
    "_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=0",
    "_LIBCPP_HAS_WIDE_CHARACTERS",
    "_LIBCPP_PSTL_BACKEND_SERIAL",
    "_LIBCXXABI_DISABLE_VISIBILITY_ANNOTATIONS",
]

# Bazel has their folders among those of our own headers too, where gcc, but not
# clang, still takes them for a system's.
_OTHERS_HEADERS = ["gmock/", "gtest/", "hwy/", "xla/"]

_ARCHIVES = ["c++", "c++abi", "unwind", "c_nonshared", "compiler_rt"]
_SHARED = ["m", "c", "ld", "pthread", "dl", "rt", "resolv", "util"]
_STARTUP = "Scrt1.o"
_RUNTIME = [_STARTUP] + ["lib%s.a" % a for a in _ARCHIVES] + ["lib%s.so" % s for s in _SHARED]

def _cc_runtime_impl(ctx):
    outputs = [
        ctx.actions.declare_file("%s/%s" % (ctx.label.name, name))
        for name in _RUNTIME
    ]
    ctx.actions.run(
        executable = ctx.file.script,
        arguments = [ctx.file.zig.path, ctx.attr.target, outputs[0].dirname],
        inputs = depset([ctx.file.zig], transitive = [ctx.attr.sources[DefaultInfo].files]),
        outputs = outputs,
        mnemonic = "CcRuntime",
        progress_message = "Building libc++ for " + ctx.attr.target,
        use_default_shell_env = True,
        # As many threads as there are processors.
        execution_requirements = {"cpu:2": ""},
    )
    return [DefaultInfo(files = depset(outputs))]

_cc_runtime = rule(
    doc = "libc++, its unwinder, startup code, and the symbols of one glibc.",
    implementation = _cc_runtime_impl,
    attrs = {
        "script": attr.label(allow_single_file = True, mandatory = True),
        "sources": attr.label(mandatory = True),
        "target": attr.string(doc = "As Zig spells it.", mandatory = True),
        "zig": attr.label(allow_single_file = True, mandatory = True),
    },
)

def _flags(name, flags, actions, **kwargs):
    return feature(
        name = name,
        flag_sets = [flag_set(
            actions = actions,
            flag_groups = [flag_group(flags = flags)],
            **kwargs
        )],
        enabled = True,
    )

def _headers(cpu, folders = _CXX_HEADERS + _HEADERS[1:]):
    return [folder.replace("%s", LINUX[cpu]) for folder in folders]

def _isystem(root, folders, cpu):
    flags = []
    for folder in _headers(cpu, folders):
        flags += ["-isystem", root + "/lib/" + folder]
    return flags

def _compile_features(ctx, target, root):
    glibc_minor = ctx.attr.glibc.split(".")[1]
    return [
        _flags(
            "cxx_library",
            ["-std=c++17", "-nostdinc++"] + _isystem(root, _CXX_HEADERS, ctx.attr.cpu) +
            ["-D" + define for define in _LIBCXX],
            ALL_CPP_COMPILE_ACTION_NAMES,
        ),
        _flags(
            "target",
            [
                "--no-default-config",
                target,
                "-nostdinc",
                # Hides what newer ones declare.
                "-D__GLIBC_MINOR__=" + glibc_minor,
            ] + _isystem(root, _HEADERS, ctx.attr.cpu),
            ALL_CC_COMPILE_ACTION_NAMES,
        ),
        _flags(
            "default_compile_flags",
            [
                # A product and a sum are fused where the source says so: neither
                # clang nor gcc, which does so in every C++ standard, chooses.
                "-ffp-contract=off",
                "-fno-omit-frame-pointer",
                "-fstack-protector",
                "-U_FORTIFY_SOURCE",
                "-Wall",
            ] + ["--system-header-prefix=" + prefix for prefix in _OTHERS_HEADERS] + [
                # The same bytes in every folder, at any time.
                "-ffile-compilation-dir=.",
                "-no-canonical-prefixes",
                "-Wno-builtin-macro-redefined",
                "-D__DATE__=\"redacted\"",
                "-D__TIMESTAMP__=\"redacted\"",
                "-D__TIME__=\"redacted\"",
            ],
            ALL_CC_COMPILE_ACTION_NAMES,
        ),
        _flags(
            "optimization_flags",
            [
                "-g0",
                "-O2",
                "-DNDEBUG",
                "-D_FORTIFY_SOURCE=1",
                "-ffunction-sections",
                "-fdata-sections",
            ],
            ALL_CC_COMPILE_ACTION_NAMES,
            with_features = [with_feature_set(features = ["opt"])],
        ),
        _flags(
            "debug_flags",
            ["-g"],
            ALL_CC_COMPILE_ACTION_NAMES,
            with_features = [with_feature_set(features = ["dbg"])],
        ),
        # .bazelrc asks for it: headers of others, and their warnings.
        feature(
            name = "external_include_paths",
            flag_sets = [flag_set(
                actions = ALL_CC_COMPILE_ACTION_NAMES,
                flag_groups = [flag_group(
                    flags = ["-isystem", "%{external_include_paths}"],
                    iterate_over = "external_include_paths",
                    expand_if_available = "external_include_paths",
                )],
            )],
        ),
    ]

def _link_features(target, root, runtime):
    folder = runtime[0].dirname
    return [
        _flags(
            "startup",
            ["%s/%s" % (folder, _STARTUP)],
            [CPP_LINK_EXECUTABLE_ACTION_NAME],
        ),
        _flags(
            "default_link_flags",
            [
                target,
                "--no-default-config",
                "-Wno-unused-command-line-argument",  # -pthread
                "--ld-path=%s/bin/ld.lld" % root,
                "-nostdlib",
                "-L" + folder,
                "-Wl,-z,relro,-z,now",
                "-Wl,--build-id=none",
            ],
            ALL_CC_LINK_ACTION_NAMES,
        ),
        _flags(
            "optimized_link_flags",
            ["-Wl,--gc-sections"],
            ALL_CC_LINK_ACTION_NAMES,
            with_features = [with_feature_set(features = ["opt"])],
        ),
        _flags(
            "identical_code_folding",
            ["-Wl,--icf=safe"],
            [CPP_LINK_DYNAMIC_LIBRARY_ACTION_NAME],
            with_features = [with_feature_set(features = ["opt"])],
        ),
    ]

def _runtime_feature(runtime):
    folder = runtime[0].dirname
    archives = ["%s/lib%s.a" % (folder, name) for name in _ARCHIVES]
    return _flags(
        "runtime_libraries",
        ["-Wl,--as-needed"] + ["-l" + name for name in _SHARED] + archives,
        ALL_CC_LINK_ACTION_NAMES,
    )

def _cc_toolchain_config_impl(ctx):
    root = ctx.label.workspace_root or "."
    target = "--target=%s-unknown-linux-gnu" % ctx.attr.cpu
    runtime = ctx.files.runtime
    return cc_common.create_cc_toolchain_config_info(
        ctx = ctx,
        toolchain_identifier = "%s-linux-gnu.%s" % (ctx.attr.cpu, ctx.attr.glibc),
        compiler = "clang",
        target_cpu = ctx.attr.cpu,
        target_libc = "glibc_" + ctx.attr.glibc,
        target_system_name = ctx.attr.cpu + "-linux-gnu",
        abi_version = "libc++",
        tool_paths = [
            tool_path(name = name, path = "bin/" + tool)
            for name, tool in {
                "ar": "ar",
                "cpp": "clang",
                "gcc": "clang",
                "ld": "ld.lld",
                "nm": "nm",
                "objcopy": "objcopy",
                "objdump": "objdump",
                "strip": "strip",
            }.items()
        ],
        features = [
                       feature(name = name, enabled = name.startswith("supports"))
                       for name in ["opt", "dbg", "fastbuild", "supports_pic", "supports_dynamic_linker"]
                   ] + _compile_features(ctx, target, root) +
                   _link_features(target, root, runtime) +
                   [_runtime_feature(runtime)],
    )

_cc_toolchain_config = rule(
    doc = "The options of a toolchain.",
    implementation = _cc_toolchain_config_impl,
    attrs = {
        "cpu": attr.string(mandatory = True, values = LINUX.keys()),
        "glibc": attr.string(mandatory = True),
        # As Bazel builds the files of a toolchain.
        "runtime": attr.label(cfg = "exec", mandatory = True),
    },
)

def hermetic_cc_toolchain(name, cpu, glibc):
    """Declares a toolchain for Linux.

    Args:
      name: the cc_toolchain's.
      cpu: one of LINUX.
      glibc: the oldest that what is built loads with, such as "2.17".
    """
    _cc_runtime(
        name = name + "_runtime",
        script = "runtime.sh",
        sources = ":runtime_sources",
        target = "%s-linux-gnu.%s" % (cpu, glibc),
        zig = "zig",
    )
    native.filegroup(
        name = name + "_compiler_files",
        srcs = native.glob(
            ["bin/clang", "lib/include/*"] +
            ["lib/%s/**" % folder for folder in _headers(cpu)],
        ) + ["zig"],
    )
    native.filegroup(
        name = name + "_linker_files",
        srcs = [
            "bin/clang",
            "bin/ld.lld",
            "lib/libc/glibc/abilists",
            name + "_runtime",
            "zig",
        ],
    )
    native.filegroup(
        name = name + "_archiver_files",
        srcs = ["bin/ar", "zig"],
    )
    native.filegroup(
        name = name + "_files",
        srcs = [
            name + "_archiver_files",
            name + "_compiler_files",
            name + "_linker_files",
        ],
    )
    _cc_toolchain_config(
        name = name + "_config",
        cpu = cpu,
        glibc = glibc,
        runtime = name + "_runtime",
    )
    cc_toolchain(
        name = name,
        all_files = name + "_files",
        ar_files = name + "_archiver_files",
        as_files = name + "_compiler_files",
        compiler_files = name + "_compiler_files",
        dwp_files = name + "_files",
        linker_files = name + "_linker_files",
        objcopy_files = name + "_files",
        strip_files = name + "_files",
        supports_param_files = True,
        toolchain_config = name + "_config",
    )
