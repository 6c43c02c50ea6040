"""The repository `xla_ffi_kit_rocm`: the machine's own HIP compiler."""

_ENV = ["HIPCC", "ROCM_PATH", "PATH"]

def _find_hipcc(rctx):
    """hipcc: $HIPCC, or ROCm's own, or the one on the path; or None."""
    named = rctx.os.environ.get("HIPCC")
    if named:
        return rctx.path(named) if rctx.path(named).exists else None
    for root in [rctx.os.environ.get("ROCM_PATH"), "/opt/rocm"]:
        if root and rctx.path(root + "/bin/hipcc").exists:
            return rctx.path(root + "/bin/hipcc")
    return rctx.which("hipcc")

def _hip_compiler_impl(rctx):
    hipcc = _find_hipcc(rctx)
    if not hipcc:
        fail(("@%s: platform ROCM: expected ROCm's compiler hipcc, found none by " +
              "$HIPCC, in $ROCM_PATH/bin, in /opt/rocm/bin and on PATH: install " +
              "ROCm, or say where it is by --repo_env=HIPCC=PATH") % rctx.name)
    root = hipcc.realpath.dirname.dirname

    # Not a link: hipcc finds ROCm by its own place.
    rctx.file("hipcc", "#!/bin/sh\nexec '%s' \"$@\"\n" % hipcc)
    rctx.symlink(root.get_child("include"), "include")
    rctx.template(
        "BUILD.bazel",
        rctx.attr._build_file,
        {"%{libraries}": str(root.get_child("lib"))},
    )
    rctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % rctx.name)

hip_compiler = repository_rule(
    doc = """ROCm as it is installed: hipcc, the headers and the library of HIP.

Evaluated when a target is built that needs it, which without --config=rocm none
does.""",
    implementation = _hip_compiler_impl,
    attrs = {
        "_build_file": attr.label(
            default = "//third_party/rocm:compiler.BUILD",
            allow_single_file = True,
        ),
    },
    environ = _ENV,
    local = True,
)
