"""The project's C++ dependencies in bzlmod mode: those of workspace.bzl."""

load("//third_party:archives.bzl", "ARCHIVES", "declare_archive")
load("//third_party:workspace.bzl", "xla_repository", "xla_runtime_repository")
load("//third_party/python:local_python.bzl", "local_python")

def _xla_ffi_kit_impl(_mctx):
    xla_repository()
    xla_runtime_repository()

    # GoogleTest and the rule sets are modules of their own.
    declare_archive("com_google_highway", ARCHIVES["com_google_highway"])

xla_ffi_kit = module_extension(
    doc = """Declares `xla`, `xla_runtime` and `com_google_highway`.

An embedder with an XLA of its own puts it in place with
`override_repo(xla_ffi_kit, xla = "xla")`.""",
    implementation = _xla_ffi_kit_impl,
)

def _python_impl(_mctx):
    local_python(name = "local_python")

python = module_extension(
    doc = "Declares `local_python`: the machine's own interpreter.",
    implementation = _python_impl,
)
