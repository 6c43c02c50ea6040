"""The one way to run tests in Python: by pytest."""

load("@rules_python//python:defs.bzl", "py_test")

# The environment of tests in JAX that compile more than they compute, thousands of
# small programs: in less than half the time where LLVM optimises none, where a
# program is one module and where XLA's CPU backend emits fusions as LLVM IR instead
# of through MLIR (jaxlib 0.12 does not any more, and ends with "Unknown flag": then
# that line goes). XLA's own passes and the handlers are as ever, and tests/compat
# runs the same tests without all this. Not for tests that compare arithmetic with
# JAX's own code bit for bit.
QUICK_COMPILATION = {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "XLA_FLAGS": " ".join([
        "--xla_cpu_parallel_codegen_split_count=1",
        "--xla_cpu_use_fusion_emitters=false",
    ]),
}

_RUN = Label("//tools/pytest_test:run.py")

def _named_in(args):
    """The labels in `$(location ...)`, `$(rootpaths ...)` and the like."""
    words = [part.split(")")[0].split(" ") for arg in args for part in arg.split("$(")[1:]]
    return [word[1] for word in words if len(word) == 2]

def pytest_test(name, srcs = None, main = None, size = "small", args = [], data = [], deps = [], **kwargs):
    """A `py_test` whose main program is pytest.

    `--test_filter` is pytest's -k; `--test_env=PYTEST_ADDOPTS=...` passes any
    other option. `shard_count` splits the cases among the shards.

    Args:
      name: of the target.
      srcs: the Python files. It defaults to `main`.
      main: the file with the tests. It defaults to `NAME.py`.
      size: of the test, which decides how long it may take.
      args: the arguments that the tests find in `sys.argv[1:]`.
      data: the files that the tests read, except those named in `args`.
      deps: the libraries, except pytest.
      **kwargs: other attributes of `py_test`.
    """
    main = main or name + ".py"
    py_test(
        name = name,
        size = size,
        srcs = (srcs or [main]) + [_RUN],
        args = ["$(rootpath %s)" % main] + args,
        data = depset(data + _named_in(args)).to_list(),
        main = _RUN,
        deps = deps + ["@pypi//pytest"],
        **kwargs
    )
