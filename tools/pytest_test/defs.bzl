"""The one way to run tests in Python: by pytest."""

load("@rules_python//python:defs.bzl", "py_test")

_RUN = "//tools/pytest_test:run.py"

def pytest_test(name, srcs = None, main = None, args = [], deps = [], **kwargs):
    """A `py_test` whose main program is pytest.

    `--test_filter` is pytest's -k, `--test_env=PYTEST_ADDOPTS=...` any other
    option; `shard_count` splits the cases among the shards.

    Args:
      name: of the target.
      srcs: the Python files; `main` only, if not given.
      main: the file with the tests; `NAME.py` if not given.
      args: what the tests find in `sys.argv[1:]`.
      deps: the libraries; pytest need not be among them.
      **kwargs: other attributes of `py_test`.
    """
    main = main or name + ".py"
    py_test(
        name = name,
        srcs = (srcs or [main]) + [_RUN],
        args = ["$(rootpath %s)" % main] + args,
        main = _RUN,
        deps = deps + ["@pypi//pytest"],
        **kwargs
    )
