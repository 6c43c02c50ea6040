"""The project's dependencies: one declaration for both modes of Bazel.

WORKSPACE mode calls the functions at the end; bzlmod mode takes the same
repositories, less the rule sets, through extensions.bzl. A repository that
exists already is the embedder's, and is never redefined.
"""

load("//third_party:archives.bzl", "ARCHIVES", "DEV_ARCHIVES", "RULE_SETS", "declare_archive", "highway_alias")
load("//third_party/cc:repository.bzl", "cc_compiler")
load("//third_party/cuda:repository.bzl", "NVRTC_WHEELS", "cuda_compiler")
load("//third_party/pypi:packages.bzl", "pypi_hub")
load("//third_party/pypi:pypi_wheel.bzl", "pypi_wheel")
load("//third_party/python:local_python.bzl", "local_python", "python_headers")
load("//third_party/xla:headers.bzl", "xla_headers")
load("//third_party/xla:revision.bzl", "NEWER_HEADERS", "PLUGIN_WHEEL", "RUNTIME_WHEEL")

# The parts of the runtime wheel that its XLA headers need.
_RUNTIME_MEMBERS = [
    "libtensorflow_cc.so.2",
    "libtensorflow_framework.so.2",
    "include/Eigen",
    "include/absl",
    "include/external/farmhash_archive",
    "include/external/highwayhash",
    "include/google",
    "include/ml_dtypes",
    "include/third_party",
    "include/tsl",
    "include/unsupported",
    "include/xla",
]

# Each is fetched when a target first needs it.
_REPOSITORIES = {
    # The FFI headers at the floor version.
    "xla": xla_headers,
    # clang, for //third_party/cc's platforms.
    "xla_ffi_kit_cc": cc_compiler,
    # nvcc.
    "xla_ffi_kit_cuda": cuda_compiler,
    # Python.h of the machine's Python.
    "xla_ffi_kit_python_headers": python_headers,
}

_WHEELS = {
    "nanobind": dict(
        build_file = Label("//third_party/pypi:nanobind.BUILD"),
        members = [
            "ext",
            "include",
            "src",
        ],
        platform = "any",
        python_version = "3.11",
        requirement = "nanobind==3.1.0",
        sha256 = "96984dbe8154ffb86e653b1b60aaeed6985c710c5e75ad0279eb87943c66292d",
        strip_prefix = "nanobind",
    ),
    "pjrt_cpu_plugin": dict(
        build_file = Label("//third_party/xla:pjrt_cpu_plugin.BUILD"),
        file_name = PLUGIN_WHEEL.file_name,
        members = ["pjrt_c_api_cpu_plugin.so"],
        platform = PLUGIN_WHEEL.platform,
        python_version = PLUGIN_WHEEL.python_version,
        requirement = PLUGIN_WHEEL.requirement,
        sha256 = PLUGIN_WHEEL.sha256,
        strip_prefix = "lammps_jax_pjrt_cpu",
    ),
    "pybind11": dict(
        build_file = Label("//third_party/pypi:pybind11.BUILD"),
        members = ["include"],
        platform = "any",
        python_version = "3.11",
        requirement = "pybind11==3.1.0",
        sha256 = "b8488090f8acffbcb6b5d6a85571a6827a0a2981ffb75e5a0b27b87c4a6b7dd0",
        strip_prefix = "pybind11",
    ),
    "xla_runtime": dict(
        build_file = Label("//third_party/xla:runtime.BUILD"),
        members = _RUNTIME_MEMBERS,
        platform = RUNTIME_WHEEL.platform,
        python_version = RUNTIME_WHEEL.python_version,
        requirement = RUNTIME_WHEEL.requirement,
        sha256 = RUNTIME_WHEEL.sha256,
        strip_prefix = "tensorflow",
    ),
}

def declare_repositories(exists = lambda _name: False):
    """Declares what C++ targets and extension modules need, but archives.

    Args:
      exists: whether a repository is there already.
    """
    for name, declare in _REPOSITORIES.items():
        if not exists(name):
            declare(name = name)
    for name, attributes in _WHEELS.items():
        if not exists(name):
            pypi_wheel(name = name, **attributes)

def declare_dev_repositories():
    """Declares other FFI headers, and NVRTC of CUDA 12 and 13, for tests."""
    xla_headers(name = "xla_header_copy")
    for version, wheel in NEWER_HEADERS.items():
        pypi_wheel(
            name = "xla_headers_" + version,
            build_file = Label("//third_party/xla:newer_headers.BUILD"),
            members = ["xla/ffi/api"],
            platform = "manylinux_2_27_x86_64",
            python_version = wheel.python_version,
            requirement = wheel.requirement,
            sha256 = wheel.sha256,
            strip_prefix = "jaxlib/include",
        )
    for name, wheel in NVRTC_WHEELS.items():
        pypi_wheel(
            name = name,
            build_file = Label("//third_party/cuda:nvrtc.BUILD"),
            file_name = wheel.file_name,
            platform = wheel.platform,
            python_version = "3.11",  # any: it holds no Python code
            requirement = wheel.requirement,
            sha256 = wheel.sha256,
        )

# buildifier: disable=unnamed-macro
def xla_ffi_kit_repositories():
    """Declares the repositories of the C++ targets that are not declared yet.

    If a Highway was declared before, as `highway` or as `com_google_highway`, the
    kit uses it.
    """
    if native.existing_rule("highway") and not native.existing_rule("com_google_highway"):
        highway_alias(name = "com_google_highway", repository = "@highway")
    for name, archive in (RULE_SETS | ARCHIVES).items():
        if not native.existing_rule(name):
            declare_archive(name, archive)
    declare_repositories(exists = native.existing_rule)

# buildifier: disable=unnamed-macro
def xla_ffi_kit_python_repositories(lock = Label("//third_party/pypi:requirements_lock.txt")):
    """Declares the machine's Python and the packages of a lock file as `@pypi`.

    `--repo_env=XLA_FFI_KIT_PYTHON=PATH` takes the Python at that path.

    The packages' repositories follow from
    `load("@pypi//:requirements.bzl", "install_deps")`.

    Args:
      lock: a lock file of `uv pip compile` or `pip-compile`, with hashes and with
        the comments `# via`.
    """
    if not native.existing_rule("local_python"):
        local_python(name = "local_python")
        native.register_toolchains("@local_python//:all")
    if not native.existing_rule("pypi"):
        pypi_hub(name = "pypi", hub = "pypi", lock = lock)

def xla_ffi_kit_dev_repositories():
    """Declares what only the kit's own tests need."""
    for name, archive in DEV_ARCHIVES.items():
        declare_archive(name, archive)
    declare_dev_repositories()
