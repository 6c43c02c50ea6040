"""Checks that what an embedder links compiles with the FFI headers of another XLA.

The sources are those of the targets and of all that they are made of in this
repository, but for kernels that stand apart and include no header of XLA. The compiler only
reads them: there is nothing to link, since handlers of newer headers load into
no older XLA.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@rules_cc//cc:defs.bzl", "CcInfo")

_SourcesInfo = provider(
    "The C and C++ sources that are compiled with the FFI headers.",
    fields = {
        "files": "depset of files",
        "use_ffi": "whether the target sees the FFI headers",
    },
)

# Of cc_library, alias, and xla_ffi_library()'s own rule.
_MADE_OF = ["actual", "deps", "library", "srcs"]

def _dependencies(rule, name):
    value = getattr(rule.attr, name, None) or []
    values = value if type(value) == "list" else [value]
    return [value for value in values if type(value) == "Target"]

def _sources_impl(target, ctx):
    made_of = [
        dep[_SourcesInfo]
        for name in _MADE_OF
        for dep in _dependencies(ctx.rule, name)
        if _SourcesInfo in dep
    ]
    use_ffi = (target.label.package == "xla/ffi/api" or
               any([sources.use_ffi for sources in made_of]))
    own = []
    if use_ffi and not target.label.workspace_name:
        own = [
            file
            for file in getattr(ctx.rule.files, "srcs", [])
            if file.extension in ["c", "cc"]
        ]
    return [_SourcesInfo(
        files = depset(own, transitive = [s.files for s in made_of]),
        use_ffi = use_ffi,
    )]

_sources = aspect(
    implementation = _sources_impl,
    attr_aspects = _MADE_OF,
)

# compiler, folder of the headers, file to write, folder of what is generated,
# folder of Highway, sources. Of kernels one instruction set is enough. The FFI's headers are most of what there is to read: once for all the
# C++ is less than half the time; for C they come first.
_COMMAND = """
set -eu
compiler=$1 headers=$2 done=$3 generated=$4 highway=$5
shift 5
read=$(mktemp -d)
trap 'rm -rf "$read"' EXIT
echo '#include "xla/ffi/api/ffi.h"' > "$read/ffi.h"
common=(-iquote "$headers" -I "$headers" -I. -I "$generated")
cxx=(-std=c++17 "${common[@]}" -iquote "$highway" -DHWY_COMPILE_ONLY_STATIC)
"$compiler" "${cxx[@]}" -x c++-header "$read/ffi.h" -o "$read/ffi.h.gch"
for source; do
  case $source in
    *.c) "$compiler" -std=c11 "${common[@]}" -x c -fsyntax-only "$source" ;;
    *) "$compiler" "${cxx[@]}" -include "$read/ffi.h" -fsyntax-only "$source" ;;
  esac
done
touch "$done"
"""

def _compiles_with_ffi_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    done = ctx.actions.declare_file(ctx.label.name + ".ok")
    sources = depset(transitive = [
        target[_SourcesInfo].files
        for target in ctx.attr.targets
    ]).to_list()
    if len(sources) < ctx.attr.at_least:
        fail("%d sources, expected at least %d: %s" %
             (len(sources), ctx.attr.at_least, sources))
    headers = ctx.files.headers
    arguments = ctx.actions.args()
    arguments.add(toolchain.compiler_executable)
    arguments.add(headers[0].dirname.removesuffix("/xla/ffi/api"))
    arguments.add(done)
    arguments.add(ctx.bin_dir.path)
    arguments.add(ctx.attr._highway.label.workspace_root)
    arguments.add_all(sources)
    ctx.actions.run_shell(
        arguments = [arguments],
        command = _COMMAND,
        inputs = depset(
            headers + sources,
            transitive = [toolchain.all_files] + [
                target[CcInfo].compilation_context.headers
                for target in ctx.attr.targets
            ],
        ),
        mnemonic = "OtherFfiHeaders",
        outputs = [done],
        progress_message = "Compiling with %s" % ctx.attr.headers.label,
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([done]))]

compiles_with_ffi = rule(
    doc = "Checks that targets compile with the FFI headers of another release.",
    implementation = _compiles_with_ffi_impl,
    attrs = {
        "at_least": attr.int(
            doc = "So many sources there have to be.",
            mandatory = True,
        ),
        "headers": attr.label(
            doc = "The headers, in a folder xla/ffi/api.",
            allow_files = [".h"],
            mandatory = True,
        ),
        "targets": attr.label_list(
            doc = "C++ libraries, with all that they are made of.",
            aspects = [_sources],
            mandatory = True,
            providers = [CcInfo],
        ),
        "_highway": attr.label(default = "@com_google_highway//:hwy"),
        "_cc_toolchain": attr.label(
            default = "@bazel_tools//tools/cpp:current_cc_toolchain",
        ),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
