"""Compiler options of what the kit's macros build."""

# Functions begin on a cache line: where a loop lies, which decides up to a
# quarter of its speed, does not depend on what is linked before it.
ALIGNED = ["-falign-functions=64"]

_KIT = Label("//:BUILD").workspace_root
_XLA = Label("@xla//xla/ffi/api:ffi").workspace_root

# In an author's own workspace gcc then takes XLA's headers, and the kit's, for the
# system's, and keeps their warnings to itself. Here
# --features=external_include_paths does it, in .bazelrc.
QUIET = [
    option
    for root in ([_XLA, _KIT] if _KIT else [])
    for option in ("-isystem", root)
    if root
]
