"""python_wheel() and stripped_library(): a Python package with handler libraries
as a wheel, the kit's or your own.

rules_python's py_wheel is no alternative: the offline rules_python of
tools/bazel comes without it, and it neither checks the tag nor sets file modes.
"""

load("@rules_cc//cc:defs.bzl", "cc_binary")

def stripped_library(name, handlers, library, **kwargs):
    """Links a handler library without debug information.

    It has the same objects as the `.so` that xla_ffi_library() declares.

    Args:
      name: the shared library to make.
      handlers: label of the xla_ffi_library.
      library: the `library` of that target, by which programs know it.
      **kwargs: passed to the `cc_binary`.
    """
    cc_binary(
        name = name,
        srcs = [handlers + "_entry.cc"],
        additional_linker_inputs = [handlers + ".lds"],
        linkopts = [
            "-Wl,--version-script=$(location %s.lds)" % handlers,
            "-Wl,-soname,%s.so" % library,
            "-Wl,-z,defs",
            "-Wl,-z,nodelete",
            "-Wl,--as-needed",
            "-Wl,-s",
        ],
        linkshared = True,
        deps = [handlers],
        **kwargs
    )

# The libraries are built by the pinned compiler, whatever builds the rest: the
# same bytes on every machine, and a glibc as old as the tag promises. A consumer
# has not registered the compiler.
def _pinned_impl(_settings, attr):
    platform = "//third_party/cc:linux_" + attr.architecture
    return {
        "//command_line_option:extra_toolchains": [
            str(Label("//third_party/cc:all")),
        ],
        "//command_line_option:platforms": [Label(platform)],
    }

_pinned = transition(
    implementation = _pinned_impl,
    inputs = [],
    outputs = [
        "//command_line_option:extra_toolchains",
        "//command_line_option:platforms",
    ],
)

def _file(target):
    """Returns the one file of a target."""
    files = target.files.to_list()
    if len(files) != 1:
        fail("expected one file of %s, got %d" % (target.label, len(files)))
    return files[0]

def _platform_tag(glibc, architecture):
    """Returns the wheel's platform tag, with the older name that it may have."""
    tag = "manylinux_%s_%s" % (glibc.replace(".", "_"), architecture)
    if glibc == "2.17":
        return "manylinux2014_%s.%s" % (architecture, tag)
    return tag

def _python_wheel_impl(ctx):
    tag = _platform_tag(ctx.attr.glibc, ctx.attr.architecture)
    wheel = ctx.actions.declare_file("%s-%s-py3-none-%s.whl" % (
        ctx.attr.distribution,
        ctx.attr.version,
        tag,
    ))
    files = {}
    prefix = ctx.label.package + "/"
    if ctx.attr.root:
        prefix += ctx.attr.root + "/"
    for source in ctx.files.srcs:
        if not source.short_path.startswith(prefix):
            fail("%s: srcs: expected files below %s, got %s" % (ctx.label, prefix, source.short_path))
        files[source.short_path.removeprefix(prefix)] = source
    for library, place in (ctx.attr.libraries | ctx.attr.machines_libraries).items():
        files[place] = _file(library)
    texts = {
        place: _file(license)
        for license, place in ctx.attr.license_files.items()
    }
    spec = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(spec, json.encode({
        "classifiers": ctx.attr.classifiers,
        "description": ctx.file.description.path,
        "entry_points": ctx.attr.entry_points,
        "extras": ctx.attr.extras,
        "files": {place: file.path for place, file in files.items()},
        "glibc": ctx.attr.glibc,
        "license": ctx.attr.license,
        "license_files": {place: file.path for place, file in texts.items()},
        "name": ctx.attr.distribution,
        "requires": ctx.attr.requires,
        "requires_python": ctx.attr.requires_python,
        "summary": ctx.attr.summary,
        "tag": "py3-none-" + tag,
        "version": ctx.attr.version,
    }))
    ctx.actions.run(
        arguments = [spec.path, wheel.path],
        executable = ctx.executable._make_wheel,
        inputs = [spec, ctx.file.description] + files.values() +
                 texts.values(),
        mnemonic = "PythonWheel",
        outputs = [wheel],
    )
    return [DefaultInfo(
        files = depset([wheel]),
        runfiles = ctx.runfiles([wheel]),
    )]

python_wheel = rule(
    doc = """Makes a wheel for every Python 3 on one Linux architecture.

The same files always give the same bytes. The build fails if a library needs
more than the wheel's tag promises.""",
    implementation = _python_wheel_impl,
    attrs = {
        "architecture": attr.string(
            doc = "As in the tag: x86_64, aarch64.",
            mandatory = True,
        ),
        "classifiers": attr.string_list(doc = "Trove classifiers."),
        "description": attr.label(
            doc = "Markdown: the project's page; of links into the repository, the text stays.",
            allow_single_file = [".md"],
            mandatory = True,
        ),
        "distribution": attr.string(
            doc = "The distribution's name.",
            mandatory = True,
        ),
        "entry_points": attr.string_list_dict(
            doc = """Groups, such as console_scripts, and the entry points of each,
`name = module:function`.""",
        ),
        "extras": attr.string_dict(
            doc = "Names of extras, and what each requires.",
        ),
        "glibc": attr.string(
            doc = "Oldest glibc that the tag promises, such as 2.27.",
            mandatory = True,
        ),
        "libraries": attr.label_keyed_string_dict(
            doc = """Shared libraries, and their places in the wheel. The pinned
compiler of //third_party/cc builds them.""",
            allow_files = [".so"],
            cfg = _pinned,
        ),
        "license": attr.string(
            doc = "An SPDX license expression.",
            mandatory = True,
        ),
        "license_files": attr.label_keyed_string_dict(
            doc = "Texts of licenses, and their places in the license folder.",
            allow_files = True,
        ),
        "machines_libraries": attr.label_keyed_string_dict(
            doc = "The same, for libraries that the host compiler builds.",
            allow_files = [".so"],
        ),
        "requires": attr.string_list(doc = "Requirements."),
        "requires_python": attr.string(
            doc = "Versions of Python.",
            mandatory = True,
        ),
        "root": attr.string(
            doc = "The folder of this package that holds the Python packages.",
        ),
        "srcs": attr.label_list(
            doc = "Files below `root`, at the same places in the wheel.",
            allow_files = True,
        ),
        "summary": attr.string(doc = "One line.", mandatory = True),
        "version": attr.string(
            doc = "The distribution's version.",
            mandatory = True,
        ),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
        "_make_wheel": attr.label(
            cfg = "exec",
            default = "//python:make_wheel",
            executable = True,
        ),
    },
)
