"""The machine's own Python as toolchains.

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
