"""Python dependencies in WORKSPACE mode; needs xla_ffi_kit_repositories()."""

load("@rules_python//python:pip.bzl", "package_annotation", "pip_parse")
load("@rules_python//python:repositories.bzl", "python_register_toolchains")
load("//third_party/pypi:pip_tools.bzl", "pip_tools")
load("//third_party/python:host_python.bzl", "host_python")
load("//third_party/python:local_python.bzl", "local_python")

# Leave out the wheels' own tests, a third of their files.
_TESTS = ["site-packages/*/**/tests/**"]

_BYTECODE = """
load("{bytecode}", "bytecode")

bytecode(
    name = "bytecode",
    srcs = glob(["site-packages/**/*.py"], exclude = {tests}),
)
""".format(
    bytecode = Label("//third_party/pypi:bytecode.bzl"),
    tests = _TESTS,
)

# What `import jax` and a test with pytest load; the rest is small, or seldom
# needed.
_COMPILED = ["jax", "jaxlib", "numpy", "opt-einsum", "pluggy", "pytest"]

_ANNOTATIONS = {
    package: package_annotation(
        additive_build_content = _BYTECODE if package in _COMPILED else None,
        data = [":bytecode"] if package in _COMPILED else [],
        data_exclude_glob = _TESTS,
        srcs_exclude_glob = _TESTS,
    )
    for package in _COMPILED + ["scipy"]
}

# buildifier: disable=unnamed-macro
def xla_ffi_kit_python_repositories():
    """Declares the machine's Python and the locked packages as `@pypi`.

    With `--repo_env=XLA_FFI_KIT_PYTHON=hermetic`, or
    `--config=hermetic_python`, it is a Python 3.11 that rules_python
    downloads instead. If the variable is a path, it is the Python at that
    path.

    The packages' repositories follow from
    `load("@pypi//:requirements.bzl", "install_deps")`.
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
        pip_tools()
        pip_parse(
            name = "pypi",
            annotations = _ANNOTATIONS,
            incompatible_generate_aliases = True,
            isolated = False,  # pip's own configuration says where wheels are
            python_interpreter_target = "@local_python//:python3",
            requirements_lock = Label("//third_party/pypi:requirements_lock.txt"),
        )
