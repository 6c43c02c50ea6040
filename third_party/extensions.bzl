"""The project's dependencies in bzlmod mode: those of workspace.bzl."""

load("//third_party:workspace.bzl", "declare_dev_repositories", "declare_repositories")
load("//third_party/pypi:packages.bzl", "declare_packages")
load("//third_party/python:local_python.bzl", "local_python")

def _no_packages_impl(_rctx):
    fail("xla_ffi_kit's Python package takes jax, jaxlib and numpy from the " +
         "codebase's own packages: expected in MODULE.bazel " +
         "xla_ffi_kit.packages(lock = ...) or " +
         "override_repo(xla_ffi_kit, pypi = ...), got none")

_no_packages = repository_rule(
    doc = "Stands for `@pypi` where the codebase has named no Python packages: its fetch fails.",
    implementation = _no_packages_impl,
)

def _declare_pypi(mctx):
    """Declares `pypi`, of the root module's packages."""
    locks = [
        tag.lock
        for module in mctx.modules
        if module.is_root
        for tag in module.tags.packages
    ]
    if len(locks) > 1:
        fail("xla_ffi_kit.packages: expected one lock file, got %s" %
             " and ".join([str(lock) for lock in locks]))
    if locks:
        declare_packages(mctx, "pypi", locks[0])
    else:
        _no_packages(name = "pypi")

def _xla_ffi_kit_impl(mctx):
    declare_repositories()
    local_python(name = "local_python")
    _declare_pypi(mctx)

_packages = tag_class(
    doc = "The Python packages that are `pypi`; read in the root module alone.",
    attrs = {
        "lock": attr.label(
            doc = "A lock file of `uv pip compile` or `pip-compile`, with hashes " +
                  "and with the comments `# via`.",
            mandatory = True,
        ),
    },
)

xla_ffi_kit = module_extension(
    doc = """Declares `xla`, the FFI headers, the CUDA compiler `xla_ffi_kit_cuda`,
which is fetched only with --config=cuda, the C++ compiler `xla_ffi_kit_cc`, which is
fetched only for the platforms of //third_party/cc, `pybind11` and `nanobind`, which are fetched only for extension
modules, a prebuilt XLA, `xla_runtime`, to which labels of `xla` lead, for tests
`pjrt_cpu_plugin`, and `local_python`, the machine's Python, whose toolchains are
`@local_python//:all`.

An embedder with an XLA of its own passes it with
`override_repo(xla_ffi_kit, xla = "xla")`.

`xla_ffi_kit.packages(lock = "//:requirements_lock.txt")` declares the Python
packages of a lock file as `pypi`. `override_repo(xla_ffi_kit, pypi = "pypi")`
takes those of another extension instead.""",
    implementation = _xla_ffi_kit_impl,
    tag_classes = {"packages": _packages},
)

def _dev_impl(_mctx):
    declare_dev_repositories()

dev = module_extension(
    doc = "Declares what only work on the kit itself needs.",
    implementation = _dev_impl,
)
