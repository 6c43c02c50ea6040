"""The project's C++ dependencies in bzlmod mode: those of workspace.bzl."""

load("//third_party:archives.bzl", "ARCHIVES", "declare_archive")
load("//third_party:workspace.bzl", "cc_repository", "cuda_repository", "nanobind_repository", "nvrtc_repositories", "pybind11_repository", "python_headers_repository", "xla_dev_repositories", "xla_repository", "xla_runtime_repositories")
load("//third_party/pypi:no_packages.bzl", "no_packages")
load("//third_party/python:local_python.bzl", "local_python")

def _xla_ffi_kit_impl(_mctx):
    xla_repository()
    cc_repository()
    cuda_repository()
    python_headers_repository()
    pybind11_repository()
    nanobind_repository()
    xla_runtime_repositories()
    for name, archive in ARCHIVES.items():
        declare_archive(name, archive)
    no_packages(name = "pypi")

xla_ffi_kit = module_extension(
    doc = """Declares `xla`, the FFI headers, `com_google_highway`, and the
CUDA compiler `xla_ffi_kit_cuda`, which is fetched only with --config=cuda, the
C++ compiler `xla_ffi_kit_cc`, which is fetched only for the platforms of
//third_party/cc, `pybind11` and `nanobind`,
which are fetched only for extension modules, a prebuilt XLA, `xla_runtime`, to
which labels of `xla` lead, and for tests `pjrt_cpu_plugin`.

An embedder with an XLA of its own passes it with
`override_repo(xla_ffi_kit, xla = "xla")`. The same works for a Highway, and for
the Python packages `pypi`. The kit declares none of these packages here.""",
    implementation = _xla_ffi_kit_impl,
)

def _dev_impl(_mctx):
    local_python(name = "local_python")
    nvrtc_repositories()
    xla_dev_repositories()

dev = module_extension(
    doc = "Declares what only work on the kit itself needs.",
    implementation = _dev_impl,
)
