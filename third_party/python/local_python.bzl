"""The machine's own Python as toolchains, and its C headers for extension modules.

One interpreter serves repository rules, build actions and tests, so that the
wheels which were fetched for it are the wheels it runs with.
"""

load(":find_python.bzl", "PYTHON_ENV", "find_python")

_BUILD = """\
load("@rules_python//python:py_runtime.bzl", "py_runtime")
load("@rules_python//python:py_runtime_pair.bzl", "py_runtime_pair")

exports_files(["python3"], visibility = ["//visibility:public"])

py_runtime(
    name = "runtime",
    interpreter_path = "{interpreter}",
    python_version = "PY3",
)

py_runtime_pair(
    name = "runtime_pair",
    py3_runtime = ":runtime",
)

toolchain(
    name = "toolchain",
    toolchain = ":runtime_pair",
    toolchain_type = "@bazel_tools//tools/python:toolchain_type",
)
"""

# Build tools that run in Python, which the rule sets of today ask for: the same
# interpreter, instead of one that rules_python downloads for them.
_EXEC_TOOLS = """
load("@rules_python//python:py_exec_tools_toolchain.bzl", "py_exec_tools_toolchain")

py_exec_tools_toolchain(name = "exec_tools")

toolchain(
    name = "exec_tools_toolchain",
    toolchain = ":exec_tools",
    toolchain_type = "@rules_python//python:exec_tools_toolchain_type",
)
"""

def _local_python_impl(rctx):
    interpreter = find_python(rctx)
    rctx.symlink(interpreter, "python3")
    build = _BUILD.format(interpreter = interpreter)
    rules_python = rctx.path(Label("@rules_python//python:defs.bzl")).dirname
    if rules_python.get_child("py_exec_tools_toolchain.bzl").exists:
        build += _EXEC_TOOLS
    rctx.file("BUILD.bazel", build)

local_python = repository_rule(
    doc = """Declares the machine's Python as `//:python3` and as toolchains.""",
    implementation = _local_python_impl,
    configure = True,
    environ = [PYTHON_ENV, "PATH"],
)

_PROBE = "import sysconfig; print(sysconfig.get_paths()['include'])"

_HEADERS = """\
load("@rules_cc//cc:defs.bzl", "cc_library")

cc_library(
    name = "headers",
    hdrs = glob(["include/**"], allow_empty = True),
    includes = ["include"],
    target_compatible_with = {compatible},
    visibility = ["//visibility:public"],
)
"""

def _python_headers_impl(rctx):
    python = find_python(rctx)
    result = rctx.execute([python, "-c", _PROBE])
    include = rctx.path(result.stdout.strip())
    found = include.get_child("Python.h").exists
    if found:
        rctx.symlink(include, "include")
    else:
        # buildifier: disable=print
        print(("%s has no Python.h in %s, so extension modules are skipped; " +
               "install the headers (package python3-dev), or name a Python " +
               "that has them in %s.") %
              (python, include, PYTHON_ENV))
    compatible = [] if found else ["@platforms//:incompatible"]
    rctx.file("BUILD.bazel", _HEADERS.format(compatible = repr(compatible)))

python_headers = repository_rule(
    doc = """Declares `//:headers`: Python.h of the Python that find_python finds.

Where that Python has no headers, the target is incompatible with every platform,
so that `bazel test //...` skips what needs it.""",
    implementation = _python_headers_impl,
    configure = True,
    environ = [PYTHON_ENV, "PATH"],
)
