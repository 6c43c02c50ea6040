"""Prints a failure with what runs it again, and a run as a table."""

import jax
from fuzz_run import Counter, Outcome, rules

from xla_ffi_accelerate._rule import Rule


def failure(outcome: Outcome) -> str:
    """A failure: how to run it again, what differs, and the program."""
    program = outcome.program
    arrays = (f"# {array}" for array in program.arrays)
    return "\n".join(
        [
            f"--- --replay {program.told()}, jax {jax.__version__}: "
            f"{outcome.difference}",
            f"# x64={program.x64}, partitionable={program.partitionable}, "
            f"exact={program.exact}, forced={program.forced}, "
            f"symbolic={program.symbolic}",
            *arrays,
            program.source(),
            "---",
        ]
    )


def rule_name(name: str, rule: Rule) -> str:
    """A rule's primitive and what it is lowered to."""
    target = (rule.target or "plain HLO").rpartition(".")[2]
    return f"{name}: {rule.primitive_name} -> {target}"


def table(counter: Counter) -> str:
    """The programs of each rule."""
    lines = []
    for name, rule in rules():
        count = counter.programs[name, rule]
        lines.append(f"{count:7d}  {rule_name(name, rule)}")
    return "\n".join(lines)
