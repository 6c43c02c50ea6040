"""python_wheel() and stripped_library(): the wheels of both packages.

rules_python's py_wheel is no alternative: the oldest that serves, 0.22.1, writes
the time of the build into a wheel, and neither a summary nor an SPDX license.
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

def _platforms(glibc, architecture):
    """The platforms of the wheel's tag: manylinux2014 is the older name of one."""
    name = "manylinux_%s_%s" % (glibc.replace(".", "_"), architecture)
    return (["manylinux2014_" + architecture] if glibc == "2.17" else []) + [name]

def _paths(places):
    """Where each file is, by its place in the wheel."""
    return {place: target.files.to_list()[0].path for target, place in places.items()}

def _python_wheel_impl(ctx):
    attr = ctx.attr
    platforms = _platforms(attr.glibc, attr.architecture)
    package = "%s-%s" % (attr.distribution, attr.version)
    info = package + ".dist-info/"
    prefix = ctx.label.package + "/" + attr.root
    files = {file.short_path.removeprefix(prefix): file.path for file in ctx.files.srcs}
    files |= _paths(attr.libraries) | _paths(attr.machines_libraries)
    files |= {
        info + "licenses/" + place: path
        for place, path in _paths(attr.license_files).items()
    }
    texts = {
        "METADATA": [
            "Metadata-Version: 2.4",
            "Name: " + attr.distribution,
            "Version: " + attr.version,
        ] + attr.metadata + ["Description-Content-Type: text/markdown", ""],
        "WHEEL": [
            "Wheel-Version: 1.0",
            "Generator: xla_ffi_kit",
            "Root-Is-Purelib: false",
        ] + ["Tag: py3-none-" + platform for platform in platforms],
        "entry_points.txt": attr.entry_points,
    }
    spec = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(spec, json.encode({
        "files": files,
        "glibc": attr.glibc,
        "info": info,
        "page": ctx.file.description.path,
        "texts": {info + name: "\n".join(lines + [""]) for name, lines in texts.items()},
    }))
    wheel = ctx.actions.declare_file("%s-py3-none-%s.whl" % (package, ".".join(platforms)))
    ctx.actions.run(
        arguments = [spec.path, wheel.path],
        executable = ctx.executable._make_wheel,
        inputs = [spec, ctx.file.description] + ctx.files.srcs + ctx.files.libraries +
                 ctx.files.machines_libraries + ctx.files.license_files,
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
        "description": attr.label(
            doc = "Markdown: the project's page; of links into the repository, the text stays.",
            allow_single_file = [".md"],
            mandatory = True,
        ),
        "distribution": attr.string(mandatory = True),
        "entry_points": attr.string_list(doc = "Lines of entry_points.txt."),
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
        "license_files": attr.label_keyed_string_dict(
            doc = "Texts of licenses, and their places in the license folder.",
            allow_files = True,
        ),
        "machines_libraries": attr.label_keyed_string_dict(
            doc = "The same, for libraries that the host compiler builds.",
            allow_files = [".so"],
        ),
        "metadata": attr.string_list(
            doc = "Lines of METADATA after the version, as the core metadata defines them.",
        ),
        "root": attr.string(
            doc = "The folder of this package with the Python packages, such as `python/`.",
        ),
        "srcs": attr.label_list(
            doc = "Files below `root`, at the same places in the wheel.",
            allow_files = True,
        ),
        "version": attr.string(mandatory = True),
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
