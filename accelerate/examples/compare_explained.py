"""The page accelerate/docs/explained.md: what `explain` says of whole programs.

    tools/bazel run //accelerate/examples:compare_explained > \
        accelerate/docs/explained.md
"""

from __future__ import annotations

import compare
import xla_ffi_accelerate

_HEAD = """# Three programs, explained

What `explain` says of three of the [examples](../examples) at their short
sizes, with jax 0.10.2 on a processor with AVX-512, and everything exact on.
This page is made by `//accelerate/examples:compare_explained`, and a test
compares it.
"""
_NAMES = ("particle filter", "mixture of experts", "personal PageRank")


def page() -> str:
    """The page."""
    parts = [_HEAD]
    for name in _NAMES:
        module = compare.PROGRAMS[name]
        arguments = module.arguments(True)
        with xla_ffi_accelerate.enabled():
            table = xla_ffi_accelerate.explain(module.program)(*arguments)
        parts.append(
            f"## {name[0].upper() + name[1:]}\n\n```text\n{table}\n```\n"
        )
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
