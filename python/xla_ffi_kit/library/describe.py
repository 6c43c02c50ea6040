"""`python -m xla_ffi_kit describe` prints what a library's handlers take.

It prints lines, a reference page in Markdown, or Python with an operation for
each handler. All of it follows from the signatures in the handler table.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence

from xla_ffi_kit.library.handler_library import (
    HandlerLibrary,
    HandlerLibraryError,
)
from xla_ffi_kit.library.signature import (
    Argument,
    Attribute,
    ShapeForm,
    Signature,
)

_UNKNOWN = (
    """raise NotImplementedError("{name}: its shape is for you to say")"""
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what the handlers of a library take; 1 if it cannot be loaded."""
    parser = argparse.ArgumentParser(
        prog="python -m xla_ffi_kit describe",
        description="What the handlers of a library take. Loads the library, "
        "which runs its code.",
    )
    parser.add_argument("library", help="a handler library (.so)")
    parser.add_argument("targets", nargs="*", help="handlers (default: all)")
    parser.add_argument("--platform", choices=("cpu", "cuda"), default="cpu")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--markdown", action="store_true", help="print a reference page"
    )
    form.add_argument(
        "--python",
        action="store_true",
        help="print the Python of an operation for each handler",
    )
    options = parser.parse_args(arguments)
    library = HandlerLibrary(options.library, options.platform)
    try:
        targets = options.targets or list(library.handlers)
        found = {target: library.signature(target) for target in targets}
    except (HandlerLibraryError, OSError) as error:
        print(f"describe: {error}", file=sys.stderr)
        return 1
    for target in (t for t, signature in found.items() if signature is None):
        print(f"describe: {target}: no signature", file=sys.stderr)
    signatures = [signature for signature in found.values() if signature]
    if options.markdown:
        print(page(os.path.basename(library.path), signatures), end="")
    elif options.python:
        print(python(options.library, signatures), end="")
    else:
        print("\n".join(map(str, signatures)))
    return 0


# --- A page ------------------------------------------------------------------


def page(library: str, signatures: Sequence[Signature]) -> str:
    """A reference page of handlers, in Markdown."""
    return "".join([f"# Handlers of {library}\n", *map(_section, signatures)])


def _section(signature: Signature) -> str:
    rows = [
        *(_argument_row("operand", operand) for operand in signature.operands),
        *(_argument_row("result", result) for result in signature.results),
        *(_attribute_row(attribute) for attribute in signature.attributes),
    ]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return (
        f"\n## {signature.target}\n\n"
        "|  | name | dtype | shape or values |\n|---|---|---|---|\n"
        f"{table}\n"
    )


def _argument_row(kind: str, argument: Argument) -> tuple[str, ...]:
    notes = [argument.shape or "any shape"]
    if argument.is_optional:
        notes.append("may be missing")
    if argument.given_with:
        notes.append(f"only with {argument.given_with}")
    if argument.is_repeated:
        one = kind == "operand"
        notes.append("one or more" if one else "one for each operand")
    dtype = ", ".join(argument.dtypes) or (
        f"that of {argument.dtype_of}" if argument.dtype_of else "any"
    )
    return kind, f"`{argument.name}`", dtype, "; ".join(notes)


def _attribute_row(attribute: Attribute) -> tuple[str, ...]:
    notes = [attribute.values.replace("|", ", ") or "any"]
    if attribute.unless_given:
        notes.append(f"only without {attribute.unless_given}")
    types = " or ".join(attribute.types)
    return "attribute", f"`{attribute.name}`", types, "; ".join(notes)


# --- Operations --------------------------------------------------------------


def python(path: str, signatures: Sequence[Signature]) -> str:
    """A Python module with an operation for each handler, to begin with.

    An operation has the operands and results that are never missing. A
    signature does not state `kernel_axes`, nor shapes that follow from no other
    shape. The author has to check them; `kernel_axes` is the least rank of each
    operand here.
    """
    operations = map(_operation, signatures)
    uses_numpy = any(s.attributes for s in signatures)
    imports = "import jax\n" + ("import numpy as np\n" if uses_numpy else "")
    return (
        f'"""Operations of {os.path.basename(path)}."""\n\n{imports}'
        "\nimport xla_ffi_kit\n\n"
        f"LIBRARY = xla_ffi_kit.HandlerLibrary({json.dumps(path)})\n"
        + "".join(operations)
    )


def _operation(signature: Signature) -> str:
    operands = [o for o in signature.operands if not o.is_optional]
    results = [
        r for r in signature.results if not (r.is_optional or r.given_with)
    ]
    attributes = signature.attributes_of(operands)
    names = [operand.name for operand in operands]
    keywords = ["*", *(a.name for a in attributes)] if attributes else []
    shapes = [_shape(signature, result) for result in results]
    unknown = [r.name for r, s in zip(results, shapes, strict=True) if not s]
    types = ", ".join(
        f"jax.ShapeDtypeStruct({shape}, {_dtype(result)})"
        for result, shape in zip(results, shapes, strict=True)
    )
    body = (
        _UNKNOWN.format(name=", ".join(unknown))
        if unknown
        else f"return {types}"
    )
    name = signature.target.rpartition(".")[2]
    return "".join(
        [
            f"\n\ndef _{name}_results({', '.join([*names, *keywords])}):\n",
            f"    {body}\n",
            f"\n\n{name} = xla_ffi_kit.FfiOp(\n",
            f'    "{signature.target}",\n',
            f"    results=_{name}_results,\n",
            f"    kernel_axes={_kernel_axes(operands)},\n",
            "    libraries=LIBRARY,\n",
            *_declared(attributes),
            *_dtypes_of(operands),
            ")\n",
        ]
    )


def _kernel_axes(operands: Sequence[Argument]) -> int | tuple[int, ...]:
    """The least rank of each operand; one number if all have the same."""
    least: dict[str, int] = {}
    for operand in operands:
        own, form = operand.ranks[0], operand.shape_form
        fewer = form in (ShapeForm.WITHOUT_LAST, ShapeForm.WITHOUT_AXIS)
        model = least.get(operand.shape_of or "", 0)
        least[operand.name] = max(own, model - fewer)
    axes = tuple(least.values())
    return axes[0] if len(set(axes)) == 1 else axes


def _declared(attributes: Sequence[Attribute]) -> Iterator[str]:
    if attributes:
        each = (f'"{a.name}": {_declared_type(a)}' for a in attributes)
        yield f"    attributes={{{', '.join(each)}}},\n"


def _declared_type(attribute: Attribute) -> str:
    if attribute.dtype is None:
        return "str"
    dtype = f"np.{_NUMPY.get(attribute.dtype, attribute.dtype)}"
    return f"({dtype},)" if attribute.is_array else dtype


_NUMPY = {
    "pred": "bool_",
    **{f"s{n}": f"int{n}" for n in (8, 16, 32, 64)},
    **{f"u{n}": f"uint{n}" for n in (8, 16, 32, 64)},
    **{f"f{n}": f"float{n}" for n in (16, 32, 64)},
}


def _dtypes_of(operands: Sequence[Argument]) -> Iterator[str]:
    """The dtypes of the operands, if all have one of the first one's."""
    first, *others = operands
    if first.dtypes and all(o.dtype_of == first.name for o in others):
        given = [d for d in first.dtypes if not d.startswith("f8")]
        yield f"    dtypes={json.dumps(given)},\n"


def _dtype(result: Argument) -> str:
    if result.dtype_of:
        return f"{result.dtype_of}.dtype"
    if not result.dtypes:
        return "None"
    name = _NUMPY.get(result.dtypes[0], result.dtypes[0])
    return '"bool"' if name == "bool_" else f'"{name}"'


def _shape(signature: Signature, result: Argument) -> str | None:
    """A result's shape as Python; None if the signature does not say."""
    model = result.shape_of
    if model in {r.name for r in signature.results}:
        (like,) = (r for r in signature.results if r.name == model)
        return _shape(signature, like)
    if model is None:
        return None
    shape, axis = f"{model}.shape", result.shape_axis
    if result.shape_form == ShapeForm.WITHOUT_LAST:
        return f"{shape}[:-1]"
    if result.shape_form == ShapeForm.WITHOUT_AXIS:
        return f"{shape}[:{axis}] + {shape}[{axis} + 1 :]"
    if result.shape_form == ShapeForm.BUT_LAST:
        return f"(*{shape}[:-1], {axis})" if axis else None
    return shape
