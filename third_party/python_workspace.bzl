"""Python dependencies in WORKSPACE mode; needs xla_ffi_kit_repositories()."""

load("@rules_python//python:repositories.bzl", "python_register_toolchains")
load("//third_party/pypi:packages.bzl", "pypi_hub")
load("//third_party/python:host_python.bzl", "host_python")
load("//third_party/python:local_python.bzl", "local_python")

# buildifier: disable=unnamed-macro
def xla_ffi_kit_python_repositories(lock = Label("//third_party/pypi:requirements_lock.txt")):
    """Declares the machine's Python and the packages of a lock file as `@pypi`.

    With `--repo_env=XLA_FFI_KIT_PYTHON=hermetic`, or
    `--config=hermetic_python`, it is a Python 3.11 that rules_python
    downloads instead. If the variable is a path, it is the Python at that
    path.

    The packages' repositories follow from
    `load("@pypi//:requirements.bzl", "install_deps")`.

    Args:
      lock: a lock file of `uv pip compile` or `pip-compile`, with hashes and with
        the comments `# via`.
    """
    if not native.existing_rule("python_3_11_host"):
        python_register_toolchains(
            name = "python_3_11",
            python_version = "3.11",
            # @local_python is the toolchain, whichever Python that is.
            register_toolchains = False,
        )
        host_python(name = "python_3_11_host", base_name = "python_3_11")
    if not native.existing_rule("local_python"):
        local_python(name = "local_python")
        native.register_toolchains("@local_python//:all")
    if not native.existing_rule("pypi"):
        pypi_hub(name = "pypi", hub = "pypi", lock = lock)
