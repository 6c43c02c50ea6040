"""The http_archive of wheels: a pinned wheel from PyPI as a repository.

The wheel is fetched with `pip download`, so the machine's own pip configuration
(index, mirror, proxy, certificates) decides from where; the hash decides what.
With XLA_FFI_KIT_WHEELS (`--repo_env`), the address of a folder of wheels, Bazel
downloads it from there, or takes it from its repository cache or --distdir; pip
only fetches what the folder lacks.
"""

load("//third_party/python:find_python.bzl", "PYTHON_ENV", "find_python")

_WHEELS_ENV = "XLA_FFI_KIT_WHEELS"

# What a rule that calls fetch_wheel() lists in `environ`.
WHEEL_ENV = [PYTHON_ENV, _WHEELS_ENV, "PATH"]

_FETCH = Label("//third_party/pypi:fetch_wheel.py")

_DOWNLOADED = "wheel.whl"

def _file_name(requirement, python_version, platform):
    """The name of a wheel for one Python, or without code for any platform."""
    name, version = requirement.split("==")
    python = "cp" + python_version.replace(".", "")
    return "-".join([
        name.replace("-", "_"),
        version,
        "py3-none" if platform == "any" else "{0}-{0}".format(python),
        platform,
    ]) + ".whl"

def _download(rctx, file_name, sha256):
    """Whether Bazel had the wheel, or downloaded it from the folder of wheels."""
    folder = rctx.os.environ.get(_WHEELS_ENV)
    return bool(folder) and rctx.download(
        url = folder.rstrip("/") + "/" + file_name,
        output = _DOWNLOADED,
        sha256 = sha256,
        allow_fail = True,
    ).success

def fetch_wheel(
        rctx,
        requirement,
        sha256,
        python_version,
        platform,
        strip_prefix = "",
        members = [],
        file_name = ""):
    """Downloads, verifies and unpacks one wheel into the repository's root.

    Args:
      rctx: the repository context; its rule lists WHEEL_ENV in `environ`.
      requirement: what to fetch, as `name==version`.
      sha256: the hash of the wheel file, in hexadecimal.
      python_version: the Python the wheel is for, as `3.11`. It is part of the
        wheel's identity, and independent of the Python that runs the build.
      platform: the wheel's platform tag, as `manylinux_2_27_x86_64`.
      strip_prefix: a folder of the wheel; only what lies below it is unpacked.
      members: folders and files below strip_prefix to unpack; all if empty.
      file_name: the wheel's, where it is not `NAME-VERSION-cp311-cp311-PLATFORM`
        or `NAME-VERSION-py3-none-any`.
    """
    rctx.report_progress("Fetching the wheel " + requirement)
    file_name = file_name or _file_name(requirement, python_version, platform)
    command = [
        find_python(rctx),
        rctx.path(_FETCH),
        "--requirement=" + requirement,
        "--sha256=" + sha256,
        "--python-version=" + python_version,
        "--platform=" + platform,
        "--strip-prefix=" + strip_prefix,
    ] + ["--member=" + member for member in members]
    if _download(rctx, file_name, sha256):
        command.append("--wheel=" + _DOWNLOADED)
    result = rctx.execute(command, timeout = 3600)
    rctx.delete(_DOWNLOADED)
    if result.return_code:
        fail(result.stderr)

def _pypi_wheel_impl(rctx):
    fetch_wheel(
        rctx,
        rctx.attr.requirement,
        rctx.attr.sha256,
        rctx.attr.python_version,
        rctx.attr.platform,
        rctx.attr.strip_prefix,
        rctx.attr.members,
        rctx.attr.file_name,
    )
    rctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % rctx.name)
    rctx.symlink(rctx.attr.build_file, "BUILD.bazel")

pypi_wheel = repository_rule(
    doc = """Unpacks one wheel, pinned by version and hash, under a BUILD file.""",
    implementation = _pypi_wheel_impl,
    attrs = {
        "build_file": attr.label(
            doc = "The BUILD file of the repository's root package.",
            allow_single_file = True,
            mandatory = True,
        ),
        "file_name": attr.string(
            doc = "The wheel's, where it does not follow from the other attributes.",
        ),
        "members": attr.string_list(
            doc = "Folders and files below strip_prefix to unpack; all if empty.",
        ),
        "platform": attr.string(
            doc = "The wheel's platform tag, as `manylinux_2_27_x86_64`.",
            mandatory = True,
        ),
        "python_version": attr.string(
            doc = "The Python version of the wheel's tag, as `3.11`.",
            mandatory = True,
        ),
        "requirement": attr.string(
            doc = "What to fetch, as `name==version`.",
            mandatory = True,
        ),
        "sha256": attr.string(
            doc = "The hash of the wheel file, in hexadecimal.",
            mandatory = True,
        ),
        "strip_prefix": attr.string(
            doc = "A folder of the wheel; only what lies below it is unpacked.",
        ),
    },
    environ = WHEEL_ENV,
)
