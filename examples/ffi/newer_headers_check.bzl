"""A rule that has the compiler read sources with other FFI headers."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

# compiler, folder of the headers, file to write, sources. The FFI's headers are
# most of what there is to read: once for all the sources is less than half the
# time.
_COMMAND = """
set -eu
compiler=$1 headers=$2 done=$3
shift 3
read=$(mktemp -d)
trap 'rm -rf "$read"' EXIT
echo '#include "xla/ffi/api/ffi.h"' > "$read/ffi.h"
options=(-std=c++17 -I. -isystem "$headers")
"$compiler" "${options[@]}" -x c++-header "$read/ffi.h" -o "$read/ffi.h.gch"
"$compiler" "${options[@]}" -include "$read/ffi.h" -fsyntax-only "$@"
touch "$done"
"""

def _newer_headers_check_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    done = ctx.actions.declare_file(ctx.label.name + ".ok")
    headers = ctx.files.headers
    folder = headers[0].dirname.removesuffix("/xla/ffi/api")
    sources = [f for f in ctx.files.srcs if f.extension == "cc"]
    arguments = ctx.actions.args()
    arguments.add(toolchain.compiler_executable)
    arguments.add(folder)
    arguments.add(done)
    arguments.add_all(sources)
    ctx.actions.run_shell(
        arguments = [arguments],
        command = _COMMAND,
        inputs = depset(
            headers + ctx.files.srcs + ctx.files.include_headers,
            transitive = [toolchain.all_files],
        ),
        mnemonic = "NewerHeaders",
        outputs = [done],
        progress_message = "Compiling the examples with %s" % ctx.attr.headers.label,
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([done]))]

newer_headers_check = rule(
    doc = """Checks that sources compile with the FFI headers of another release.

The compiler only reads them: a fifth of the time of compiling, and there is
nothing to link, since these headers' handlers load into no older XLA.""",
    implementation = _newer_headers_check_impl,
    attrs = {
        "headers": attr.label(
            doc = "The headers, in a folder xla/ffi/api.",
            allow_files = [".h"],
            mandatory = True,
        ),
        "include_headers": attr.label_list(
            doc = "Further headers that the sources include.",
            allow_files = True,
        ),
        "srcs": attr.label_list(
            doc = "C++ sources and headers.",
            allow_files = True,
            mandatory = True,
        ),
        "_cc_toolchain": attr.label(
            default = "@bazel_tools//tools/cpp:current_cc_toolchain",
        ),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
