"""What `explain` says of whole programs: accelerate/docs/explained.md.

    tools/bazel run //accelerate/examples:explained > \
        accelerate/docs/explained.md
"""

from __future__ import annotations

import moe_router
import particle_filter

import xla_ffi_accelerate

PROGRAMS = {
    "particle filter": particle_filter,
    "mixture of experts": moe_router,
}
_HEAD = """# Three programs, explained

What `explain` says of the [examples](../examples), with jax 0.10.2 on a
processor with AVX-512, and everything exact on. This page is made by
`//accelerate/examples:explained`, and a test compares it.

"Plain HLO" is XLA's own operations, without a custom call, and an operation
that is "written out" is replaced by them. A loop is one function, or its body
is a list of "tasks", which are slower ([loops](loops.md)).
"""


def page() -> str:
    """The page's text."""
    parts = [_HEAD]
    for name, module in PROGRAMS.items():
        with xla_ffi_accelerate.enabled():
            explained = xla_ffi_accelerate.explain(module.program)
            table = explained(*module.arguments())
        title = name[0].upper() + name[1:]
        parts.append(f"## {title}\n\n```text\n{table}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
