"""The packages of a lock file as repositories: one wheel each, and a hub of aliases.

The lock file is one of `uv pip compile` or `pip-compile`, with hashes and with the
comments that say which package needs which. pip chooses the wheel of the Python
that runs, by its own configuration, and checks its hash.
"""

load("//third_party/python:find_python.bzl", "PYTHON_ENV", "find_python")

def repository_of(hub, package):
    """The name of a package's repository."""
    return "%s_%s" % (hub, package)

def _normalized(name):
    return name.partition("[")[0].strip().lower().replace("-", "_").replace(".", "_")

def parse_lock(path, text):
    """Reads a lock file.

    Args:
      path: of the file, for errors.
      text: its content.

    Returns:
      A dictionary from the package's name in labels to a struct of `lines`, what
      pip is told of it, and `deps`, the names of the packages that it needs.
    """
    lines = {}
    needed_by = {}
    package = None
    for line in text.splitlines():
        comment = line.strip()
        if line and line[0] not in " #-":
            package = _normalized(line.partition("==")[0])
            lines.setdefault(package, []).append(line)
            needed_by.setdefault(package, [])
        elif package and comment.startswith("--hash="):
            lines[package].append(line)
        elif package and comment.startswith("#"):
            word = comment.removeprefix("#").strip().removeprefix("via ").strip()
            if word not in ["", "via"]:
                # A package, or what is no name of one: `-r requirements.in`.
                needed_by[package].append(_normalized(word))
    deps = {name: [] for name in lines}
    for name, parents in needed_by.items():
        if not parents:
            fail(("%s: %s: expected a comment `# via ...`, which says what needs the " +
                  "package, as `uv pip compile` and `pip-compile` write it") % (path, name))
        for parent in parents:
            # A package may be there for several machines.
            if parent in deps and name not in deps[parent]:
                deps[parent].append(name)
    return {
        name: struct(lines = lines[name], deps = sorted(deps[name]))
        for name in lines
    }

_PACKAGE = """\
load("@rules_python//python:defs.bzl", "py_library")

package(default_visibility = ["//visibility:public"])

py_library(
    name = "pkg",
    srcs = glob(["site-packages/**/*.py"], allow_empty = True),
    data = glob(
        ["site-packages/**/*"],
        allow_empty = True,
        exclude = ["site-packages/**/*.py", "**/* *", "**/*.dist-info/RECORD"],
    ),
    imports = ["site-packages"],
    deps = {deps},
)
"""

def _pypi_package_impl(rctx):
    rctx.report_progress("Fetching the wheel of " + rctx.attr.lines[0].split(" ")[0])
    rctx.file("requirements.txt", "\n".join(rctx.attr.lines) + "\n")
    rctx.path(rctx.attr._fetch)
    result = rctx.execute(
        [find_python(rctx), "-B", rctx.path(rctx.attr._install)],
        environment = {"PYTHONHASHSEED": "0"},
        timeout = 3600,
    )
    if result.return_code:
        fail(result.stderr)
    deps = ["@%s//:pkg" % repository for repository in rctx.attr.packages]
    rctx.file("WORKSPACE")
    rctx.file("BUILD.bazel", _PACKAGE.format(deps = deps))

pypi_package = repository_rule(
    doc = "One package of a lock file, as `//:pkg`; empty if it is not for this machine.",
    implementation = _pypi_package_impl,
    attrs = {
        "lines": attr.string_list(
            doc = "Its lines in the lock file.",
            mandatory = True,
        ),
        "packages": attr.string_list(
            doc = "The repositories of the packages that it needs.",
        ),
        "_fetch": attr.label(default = "//third_party/pypi:fetch_wheel.py"),
        "_install": attr.label(default = "//third_party/pypi:install_package.py"),
    },
    environ = [PYTHON_ENV, "PATH"],
)

_ALIAS = """\
alias(
    name = "{name}",
    actual = "@{repository}//:pkg",
    visibility = ["//visibility:public"],
)
"""

_INSTALL = """\
load("{packages}", "pypi_package")

def install_deps():
    \"\"\"Declares the repositories of all packages.\"\"\"
    for name, attributes in {attributes}.items():
        pypi_package(name = name, **attributes)
"""

def _attributes(hub, packages):
    """The arguments of pypi_package() by the name of the repository."""
    return {
        repository_of(hub, name): {
            "lines": package.lines,
            "packages": [repository_of(hub, dep) for dep in package.deps],
        }
        for name, package in packages.items()
    }

def _pypi_hub_impl(rctx):
    hub = rctx.attr.hub
    packages = parse_lock(rctx.attr.lock, rctx.read(rctx.attr.lock))
    for name in packages:
        aliases = [
            _ALIAS.format(name = alias, repository = repository_of(hub, name))
            for alias in [name, "pkg"]
        ]
        rctx.file(name + "/BUILD.bazel", "\n".join(aliases))
    rctx.file("WORKSPACE")
    rctx.file("BUILD.bazel")
    rctx.file("requirements.bzl", _INSTALL.format(
        packages = Label("//third_party/pypi:packages.bzl"),
        attributes = _attributes(hub, packages),
    ))

pypi_hub = repository_rule(
    doc = """The packages of a lock file as `//NAME`.

In WORKSPACE mode, `install_deps()` of its `requirements.bzl` declares them.""",
    implementation = _pypi_hub_impl,
    attrs = {
        "hub": attr.string(doc = "This repository's own name.", mandatory = True),
        "lock": attr.label(doc = "The lock file.", mandatory = True),
    },
)

def declare_packages(mctx, hub, lock):
    """Declares the hub and the repositories of all packages, in bzlmod mode.

    Args:
      mctx: the context of the module extension.
      hub: the hub's name.
      lock: the label of the lock file.
    """
    pypi_hub(name = hub, hub = hub, lock = lock)
    packages = parse_lock(lock, mctx.read(lock))
    for name, attributes in _attributes(hub, packages).items():
        pypi_package(name = name, **attributes)
