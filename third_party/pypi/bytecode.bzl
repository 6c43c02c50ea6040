"""Compiles the modules of a wheel once, and not anew in every test.

A sandbox starts without `__pycache__`, and what Python writes there is gone
with it: `import jax` then compiles four hundred modules, which takes longer than
all else that a small test does.
"""

# Only pip_parse's wheels get it, in WORKSPACE mode: there a label begins with one
# @, in bzlmod mode with two.
HAS_BYTECODE = not str(Label("//:BUILD")).startswith("@@")

_PYTHON = "@bazel_tools//tools/python:toolchain_type"

def _bytecode_impl(ctx):
    folders = {}
    arguments = ctx.actions.args()
    arguments.use_param_file("%s", use_always = True)
    for source in ctx.files.srcs:
        # Below the BUILD file, as in the wheel.
        folder = source.dirname.removeprefix(ctx.label.workspace_root + "/")
        if folder not in folders:
            # How Python names a file in it is Python's own affair.
            folders[folder] = ctx.actions.declare_directory(
                folder + "/__pycache__",
            )
        arguments.add_all(
            [source, folders[folder]],
            expand_directories = False,
        )
    runtime = ctx.toolchains[_PYTHON].py3_runtime
    ctx.actions.run(
        outputs = folders.values(),
        inputs = depset(
            ctx.files.srcs + [ctx.file._compile],
            transitive = [runtime.files] if runtime.files else [],
        ),
        executable = runtime.interpreter or runtime.interpreter_path,
        arguments = [ctx.file._compile.path, arguments],
        env = {"PYTHONHASHSEED": "0"},
        mnemonic = "PythonBytecode",
        progress_message = "Compiling the modules of %{label}",
    )
    return [DefaultInfo(files = depset(folders.values()))]

bytecode = rule(
    doc = """The `__pycache__` folders of Python sources, for Python to find beside them.""",
    implementation = _bytecode_impl,
    attrs = {
        "srcs": attr.label_list(
            doc = "The sources.",
            allow_files = [".py"],
        ),
        "_compile": attr.label(
            default = "//third_party/pypi:compile_sources.py",
            allow_single_file = True,
        ),
    },
    toolchains = [_PYTHON],
)
