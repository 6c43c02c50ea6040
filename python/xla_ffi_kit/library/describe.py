"""`python -m xla_ffi_kit describe` writes a reference page of handlers."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence

from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.library.handler_library import HandlerLibrary
from xla_ffi_kit.library.signature import Argument, Attribute, Signature


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the page of a library; 1 if the library cannot be loaded."""
    parser = argparse.ArgumentParser(
        prog="python -m xla_ffi_kit describe",
        description="Writes a reference page, in Markdown, of what the "
        "handlers of a library take. Loads the library, which runs its code.",
    )
    parser.add_argument("library", help="a handler library (.so)")
    library = HandlerLibrary(parser.parse_args(arguments).library)
    try:
        signatures = map(library.signature, library.targets)
        print(page(os.path.basename(library.path), signatures), end="")
    except HandlerLibraryError as error:
        print(f"describe: {error}", file=sys.stderr)
        return 1
    return 0


def wrong_names(library: HandlerLibrary) -> dict[str, str]:
    """What is wrong with names in C++ that are not a handler's target.

    A handler of KIT_DEFINE_HANDLER has no name but its symbol.

    Args:
      library: a handler library, which is loaded.

    Returns:
      Target -> a sentence, for those whose name differs.
    """
    rows = [h for h in library.handlers.values() if h.signature_at]
    named = {(row.signature_at, row.name) for row in rows}
    symbols = library.exports().functions
    problems = {}
    for row in rows:
        signature = row.signature()
        name = signature.target if signature is not None else row.name
        if (row.signature_at, name) not in named and name not in symbols:
            problems[row.name] = (
                f"{row.name}: the name in its kit::Call: expected "
                f'"{row.name}", as the library offers it, got "{name}", by '
                "which its errors call it"
            )
    return problems


def page(library: str, signatures: Iterable[Signature | None]) -> str:
    """A table, in Markdown, of the handlers that have a signature."""
    head = (
        f"# Handlers of {library}\n\n"
        "| handler |  | name | dtype | shape or values |\n"
        "|---|---|---|---|---|\n"
    )
    return head + "".join(_rows(s) for s in signatures if s)


def _rows(signature: Signature) -> str:
    """The rows of a handler, with its name in the first."""
    rows = [
        *(_argument_row("operand", operand) for operand in signature.operands),
        *(_argument_row("result", result) for result in signature.results),
        *(_attribute_row(attribute) for attribute in signature.attributes),
    ]
    names = [f"`{signature.target}`", *[""] * (len(rows) - 1)]
    lines = (" | ".join([n, *r]) for n, r in zip(names, rows, strict=True))
    return "".join(f"| {line} |\n" for line in lines)


def _argument_row(kind: str, argument: Argument) -> tuple[str, ...]:
    shape = argument.shape or "any shape"
    notes = [f"`{shape}`" if shape.startswith("(") else shape]
    notes += argument.bounds
    if argument.is_shared:
        notes.append("shared by rows")
    if argument.is_optional:
        notes.append("may be missing")
    if argument.given_with:
        notes.append(f"only with {argument.given_with}")
    if argument.is_repeated:
        one = kind == "operand"
        notes.append("one or more" if one else "one for each operand")
    dtype = argument.dtype.replace("|", ", ")
    return kind, f"`{argument.name}`", dtype, "; ".join(notes)


def _attribute_row(attribute: Attribute) -> tuple[str, ...]:
    notes = [attribute.values.replace("|", ", ") or "any"]
    if attribute.unless_given:
        notes.append(f"only without {attribute.unless_given}")
    types = " or ".join(attribute.types)
    return "attribute", f"`{attribute.name}`", types, "; ".join(notes)
