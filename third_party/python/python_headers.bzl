"""The C headers of the machine's Python, for extension modules."""

load(":find_python.bzl", "PYTHON_ENV", "find_python")

_PROBE = "import sysconfig; print(sysconfig.get_paths()['include'])"

_BUILD = """\
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
    rctx.file("BUILD.bazel", _BUILD.format(compatible = repr(compatible)))

python_headers = repository_rule(
    doc = """Declares `//:headers`: Python.h of the Python that find_python finds.

Where that Python has no headers, the target is incompatible with every platform,
so that `bazel test //...` skips what needs it.""",
    implementation = _python_headers_impl,
    configure = True,
    environ = [PYTHON_ENV, "PATH"],
)
