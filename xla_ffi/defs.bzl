"""xla_ffi_op(), an operation in one call, and xla_ffi_library(), which it calls:
from sources and a list of handlers to a handler library.

The `handlers` of a BUILD file are the one list of handlers: the handler table,
the version script of the shared library, registration in an XLA binary and
Python all follow from it.
"""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")
load("//third_party/cuda:defs.bzl", "CUDA_ONLY", "CUDA_SOURCES", "cuda_library")
load("//xla_ffi/registration:handlers.bzl", "handler_library", "handler_table")
load("//xla_ffi/testing/cuda:defs.bzl", "emulated_cuda_library")

# Functions begin on a cache line: where a loop lies, which decides up to a
# quarter of its speed, does not depend on what is linked before it.
_ALIGNED = ["-falign-functions=64"]

# -O2 of gcc leaves loops of kernels unvectorized.
_COPTS = _ALIGNED + ["-O3"]

_KIT = Label("//:BUILD").workspace_root
_XLA = Label("@xla//xla/ffi/api:ffi").workspace_root

# In an author's own workspace gcc then takes XLA's headers, and the kit's, for the
# system's, and keeps their warnings to itself. Here
# --features=external_include_paths does it, in .bazelrc.
_QUIET = [
    option
    for root in ([_XLA, _KIT] if _KIT else [])
    for option in ("-isystem", root)
    if root
]

def _cuda_sources(name, platform, srcs):
    """Those among the sources that nvcc compiles; fails if it is not their platform."""
    if type(srcs) != "list":  # a select(), which nobody can look into
        return []
    sources = [
        s
        for s in srcs
        if type(s) == "string" and s.endswith(tuple(CUDA_SOURCES))
    ]
    if sources and platform != "CUDA":
        fail("%s: srcs: %s is CUDA: put it into a second xla_ffi_library() with platform = \"CUDA\"" %
             (native.package_relative_label(name), sources[0]))
    return sources

def xla_ffi_library(
        name,
        handlers = {},
        types = {},
        platform = "Host",
        srcs = [],
        hdrs = [],
        deps = [],
        copts = [],
        library = None,
        pybind11_module = None,
        visibility = None,
        testonly = False,
        tags = [],
        target_compatible_with = None,
        **kwargs):
    """Builds handlers of custom calls, and the targets that load or register them.

    Declares
      * `<name>`: a C++ library of the handlers, including those of `deps`,
        and of their table, `const XlaFfiKit_HandlerTable*
        <library>_handler_table(void)`;
      * `<name>_register`: registers every handler with the XLA that is linked
        into the same binary, when it starts;
      * `<library>.so`: a shared library that exports the handlers, the types
        and `XlaFfiKit_GetHandlerTable`, nothing else;
      * `<name>_exports`: a file that lists those exports.

    Args:
      name: name of the target.
      handlers: the custom call targets that this library adds. Each maps to
        the symbol that XLA_FFI_DEFINE_HANDLER_SYMBOL defines for it, or to a
        dictionary from stage ("instantiate", "prepare", "initialize",
        "execute") to symbol.
      types: the types that these handlers keep as state, or read as user
        data. The name of the type in XLA maps to the name given to
        XLA_FFI_KIT_DEFINE_TYPE (xla_ffi/core/define_type.h), or to a
        dictionary with the symbols that
        XLA_FFI_DECLARE_TYPE_ID_SYMBOL ("type_id") and
        XLA_FFI_DECLARE_TYPE_INFO_SYMBOL ("type_info") declare. Types are
        registered before handlers.
      platform: XLA's name of the platform that the handlers run on: "Host",
        "CUDA" or "ROCM". CUDA targets are skipped without --config=cuda.
      srcs: C++ sources. If `platform` is "CUDA", they may include CUDA
        sources, `.cu.cc` or `.cu`, which are compiled as by `cuda_library`.
        (If they are not a plain list, put CUDA sources into a `cuda_library`
        in `deps`.)
      hdrs: C++ headers.
      deps: libraries. The handlers of handler libraries among them become
        part of this library's table.
      copts: compiler options, after the kit's own.
      library: name of the shared library, which must be a C identifier. It
        defaults to `name`.
      pybind11_module: name of an extension module to build as well, as
        `<pybind11_module>.so`. Its functions `registrations()` and
        `type_registrations()` return the arguments of
        jax.ffi.register_ffi_target and jax.ffi.register_ffi_type. It contains
        the handlers, works only with the Python that it was built for, and is
        skipped if that Python has no headers. Use it in packages that are
        extension modules already; the shared library above does not need it.
      visibility: the visibility of all targets that this macro declares.
      testonly: as for any target.
      tags: of everything declared.
      target_compatible_with: applies to everything declared. The default for
        "CUDA" is that of `cuda_library`.
      **kwargs: passed to the `cc_library`.
    """
    library = library or name
    if target_compatible_with == None:
        target_compatible_with = CUDA_ONLY if platform == "CUDA" else []
    common = {
        "target_compatible_with": target_compatible_with,
        "testonly": testonly,
        "visibility": visibility,
    }
    private = common | {"visibility": ["//visibility:private"]}
    handler_table(
        name = name + "_exports",
        entry = name + "_entry.cc",
        handlers = json.encode(handlers),
        library = library,
        platform = platform,
        register = name + "_register.cc",
        table = name + "_table.cc",
        tags = tags,
        types = json.encode(types),
        version_script = name + ".lds",
        deps = deps,
        **common
    )
    cuda_srcs = _cuda_sources(name, platform, srcs)
    needs = deps + [Label("//xla_ffi/registration:handler_deps")]
    if cuda_srcs:
        cuda_library(
            name = name + "_nvcc",
            srcs = cuda_srcs + hdrs,
            deps = needs,
            tags = tags,
            **private
        )
        srcs = [s for s in srcs if s not in cuda_srcs]
        needs = needs + [":" + name + "_nvcc"]
    cc_library(
        name = name + "_cc",
        srcs = srcs + [name + "_table.cc"],
        hdrs = hdrs,
        copts = _COPTS + _QUIET + copts,
        deps = needs,
        tags = tags,
        **(private | kwargs)
    )
    handler_library(
        name = name,
        handlers = ":" + name + "_exports",
        library = ":" + name + "_cc",
        tags = tags,
        **common
    )
    cc_library(
        name = name + "_register",
        srcs = [name + "_register.cc"],
        copts = _QUIET,
        alwayslink = True,
        tags = tags + ["manual"],
        deps = [
            ":" + name,
            Label("//xla_ffi/core:c_api_names"),
        ],
        **common
    )
    if pybind11_module:
        _pybind11_module(pybind11_module, name, library, tags, common)
    cc_binary(
        name = library + ".so",
        srcs = [name + "_entry.cc"],
        additional_linker_inputs = [name + ".lds"],
        linkopts = [
            "-Wl,--version-script=$(location %s.lds)" % name,
            # Else the linker writes the path of the output into the library.
            "-Wl,-soname,%s.so" % library,
            # XLA keeps the addresses of handlers: closing the library must not
            # take them away.
            "-Wl,-z,nodelete",
            # A handler that is named but not defined fails here, by name, and
            # not when the library is loaded.
            "-Wl,-z,defs",
        ],
        copts = _QUIET,
        linkshared = True,
        tags = tags + ["manual"],
        deps = [":" + name],
        **common
    )

def _pybind11_module(module, name, library, tags, common):
    """Declares `<module>.so`, the extension module of a handler library."""
    script = Label("//xla_ffi/registration:pybind11_module.lds")
    cc_binary(
        name = module + ".so",
        srcs = [Label("//xla_ffi/registration:pybind11_module.cc")],
        additional_linker_inputs = [script],
        copts = ["-fvisibility=hidden"],  # as pybind11 itself is compiled
        linkopts = [
            "-Wl,--version-script=$(location %s)" % script,
            "-Wl,-soname,%s.so" % module,
        ],
        linkshared = True,
        local_defines = [
            "XLA_FFI_KIT_MODULE=" + module,
            "XLA_FFI_KIT_HANDLER_TABLE=%s_handler_table" % library,
        ],
        tags = tags + ["manual"],
        deps = [
            ":" + name,
            Label("//xla_ffi/core:handler_table"),
            Label("@pybind11//:pybind11"),
        ],
        **common
    )

def xla_ffi_op(
        name,
        handlers = {},
        srcs = [],
        hdrs = [],
        deps = [],
        kernel_srcs = [],
        kernel_hdrs = [],
        kernel_deps = [],
        kernel_copts = ["-O3"],
        cuda_handlers = {},
        cuda_srcs = [],
        cuda_deps = [],
        cuda_kernel_srcs = [],
        cuda_kernel_hdrs = [],
        tests = [],
        emulated_tests = [],
        cuda_tests = [],
        test_deps = [],
        visibility = None,
        tags = [],
        **kwargs):
    """Builds an operation: kernels and handlers for both platforms, and tests.

    It declares these targets, if there are sources for them:
      * `<name>`: the CPU handlers, an `xla_ffi_library`, and all targets
        of one;
      * `<op>_cuda`: the CUDA handlers, in the same way; skipped without
        --config=cuda;
      * `<op>_kernel`, `<op>_cuda_kernel`: the kernels, for targets of the same
        package;
      * `<op>_cuda_emulated`: CUDA kernels and handlers compiled for the
        emulator in //xla_ffi/testing/cuda, so that tests run them on the CPU;
      * a `cc_test` for each test, with the name of its source.

    `<op>` is `name` without a `_cpu` at its end.

    These headers need no `deps`: handlers may include xla_ffi/core/handler.h
    and xla_ffi/core/call.h, and on CUDA xla_ffi/core/cuda/handler.h. Kernels may
    include the headers of //xla_ffi/core:kernel, and on CUDA those of
    //xla_ffi/core/cuda:kernel. Tests have the call frames of
    //xla_ffi/testing and your workspace's `@com_google_googletest`.

    Args:
      name: name of the CPU handlers' target.
      handlers: the handlers on the CPU, as for `xla_ffi_library`.
      srcs: C++ sources of the handlers on the CPU. If kernel and handler are
        in one source, name it here.
      hdrs: headers of the handlers on both platforms.
      deps: more libraries that handlers need on both platforms.
      kernel_srcs: C++ sources of the kernels on the CPU, which include nothing
        of XLA.
      kernel_hdrs: headers of the kernels on the CPU. CUDA kernels may include
        them too.
      kernel_deps: more libraries that kernels on the CPU need, such as
        //xla_ffi/core:simd.
      kernel_copts: compiler options of the kernels on the CPU, which follow
        the kit's own.
      cuda_handlers: the handlers on CUDA devices, as for `xla_ffi_library`.
      cuda_srcs: C++ and CUDA sources of the handlers on CUDA devices.
      cuda_deps: more libraries that kernels and handlers on CUDA devices need.
      cuda_kernel_srcs: CUDA sources of the kernels, `.cu.cc` or `.cu`.
      cuda_kernel_hdrs: their headers.
      tests: C++ tests of kernels and handlers on the CPU.
      emulated_tests: those that run `<op>_cuda_emulated`, too.
      cuda_tests: those of the handlers on CUDA devices; skipped without
        --config=cuda.
      test_deps: more libraries that tests need.
      visibility: the visibility of all targets that this macro declares.
      tags: of everything declared.
      **kwargs: passed to the `xla_ffi_library` of the CPU handlers.
    """
    op = name.removesuffix("_cpu")
    for needed, argument, sources in [
        (handlers, "srcs", srcs),
        (cuda_handlers, "cuda_srcs", cuda_srcs),
        (cuda_handlers, "cuda_kernel_srcs", cuda_kernel_srcs),
        (cuda_handlers, "emulated_tests", emulated_tests),
        (cuda_handlers, "cuda_tests", cuda_tests),
    ]:
        if sources and not needed:
            fail("%s: %s: no handlers are listed that these belong to: set `%s`" % (
                native.package_relative_label(name),
                argument,
                "handlers" if argument == "srcs" else "cuda_handlers",
            ))
    kernel = []
    if kernel_srcs or kernel_hdrs:
        kernel = [":" + op + "_kernel"]
        cc_library(
            name = op + "_kernel",
            srcs = kernel_srcs,
            hdrs = kernel_hdrs,
            copts = _ALIGNED + kernel_copts,
            tags = tags,
            visibility = ["//visibility:private"],
            deps = kernel_deps + [Label("//xla_ffi/core:kernel")],
        )
    if handlers:
        xla_ffi_library(
            name = name,
            srcs = srcs,
            hdrs = hdrs,
            handlers = handlers,
            tags = tags,
            visibility = visibility,
            deps = kernel + deps + [
                Label("//xla_ffi/core:handler"),
                Label("//xla_ffi/core:signature"),
            ],
            **kwargs
        )
    if cuda_handlers:
        _cuda_side_of_op(
            op,
            handlers = cuda_handlers,
            srcs = cuda_srcs,
            hdrs = hdrs,
            deps = deps + cuda_deps,
            kernel_srcs = cuda_kernel_srcs,
            kernel_hdrs = cuda_kernel_hdrs + kernel_hdrs,
            kernel_deps = cuda_deps,
            tags = tags,
            visibility = visibility,
        )
    emulator = [
        ":" + op + "_cuda_emulated",
        Label("//xla_ffi/testing/cuda:emulator"),
    ]
    on_cpu = kernel + ([":" + name] if handlers else [])
    for sources, libraries, compatible in [
        (tests, on_cpu, []),
        (emulated_tests, on_cpu + emulator, []),
        (cuda_tests, [":" + op + "_cuda"], CUDA_ONLY),
    ]:
        for source in sources:
            cc_test(
                name = source.removesuffix(".cc"),
                srcs = [source],
                copts = _QUIET,
                tags = tags,
                target_compatible_with = compatible,
                deps = libraries + test_deps + [
                    Label("//xla_ffi/testing:call_frame"),
                    "@com_google_googletest//:gtest_main",
                ],
            )

def _cuda_side_of_op(
        op,
        handlers,
        srcs,
        hdrs,
        deps,
        kernel_srcs,
        kernel_hdrs,
        kernel_deps,
        tags,
        visibility):
    """Declares the CUDA handlers of an operation, their kernels and their twin."""
    kernel = []
    if kernel_srcs:
        kernel = [":" + op + "_cuda_kernel"]
        cuda_library(
            name = op + "_cuda_kernel",
            srcs = kernel_srcs,
            hdrs = kernel_hdrs,
            tags = tags,
            visibility = ["//visibility:private"],
            deps = kernel_deps + [Label("//xla_ffi/core/cuda:kernel")],
        )
    xla_ffi_library(
        name = op + "_cuda",
        srcs = srcs,
        hdrs = hdrs,
        handlers = handlers,
        platform = "CUDA",
        tags = tags,
        visibility = visibility,
        deps = kernel + deps + [Label("//xla_ffi/core/cuda:handler")],
    )
    emulated_cuda_library(
        name = op + "_cuda_emulated",
        srcs = kernel_srcs + srcs,
        hdrs = kernel_hdrs + hdrs,
        # The emulator may lack what a kernel uses: built only where tested.
        tags = tags + ["manual"],
        visibility = visibility,
        deps = deps + [Label("//xla_ffi/core/cuda:emulated_handler")],
    )
