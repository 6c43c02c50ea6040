"""script(): a file as a program that `--run_under` can name."""

def _script_impl(ctx):
    program = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(
        output = program,
        target_file = ctx.file.src,
        is_executable = True,
    )
    return [DefaultInfo(executable = program)]

script = rule(
    doc = "Makes a program of a script; Bazel 9 has no sh_binary of its own.",
    implementation = _script_impl,
    attrs = {
        "src": attr.label(allow_single_file = True, mandatory = True),
    },
    executable = True,
)
