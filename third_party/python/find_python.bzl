"""The Python interpreter that repository rules and Python targets run with."""

# Names the interpreter to use; otherwise it is the `python3` on PATH.
PYTHON_ENV = "XLA_FFI_KIT_PYTHON"

_MIN_VERSION = (3, 11)  # the oldest Python that the locked JAX supports

_PROBE = "import sys; print(*sys.version_info[:2], sys.executable, sep='\\n')"

def find_python(rctx):
    """Returns the path of a Python that the project can run with.

    Args:
      rctx: the repository context; its rule lists PYTHON_ENV in `environ`.

    Returns:
      The interpreter's absolute path, as the interpreter itself reports it
      (so that shims which depend on the environment are seen through).
    """
    name = rctx.os.environ.get(PYTHON_ENV) or "python3"
    found = name if name.startswith("/") else rctx.which(name)
    if not found:
        fail("No `%s` on PATH: install Python >= %d.%d, or set %s to one." %
             ((name,) + _MIN_VERSION + (PYTHON_ENV,)))
    probe = rctx.execute([found, "-c", _PROBE])
    if probe.return_code:
        fail("%s does not run: %s" % (found, probe.stderr))
    major, minor, executable = probe.stdout.strip().split("\n")
    if (int(major), int(minor)) < _MIN_VERSION:
        fail(("%s is Python %s.%s, xla_ffi_kit needs >= %d.%d: install one " +
              "and name it in %s.") %
             ((found, major, minor) + _MIN_VERSION + (PYTHON_ENV,)))
    return executable
