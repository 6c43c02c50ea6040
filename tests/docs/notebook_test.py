"""examples/isotonic.ipynb is README's code, and it runs.

python tests/docs/notebook_test.py          writes it
"""

import contextlib
import io
import json

import pages

NOTEBOOK = pages.ROOT / "examples/isotonic.ipynb"
_SAYS = """\
# A kernel becomes an operation

[README](../README.md#a-kernel-becomes-an-operation) explains it, and says how
to install `xla_ffi_kit`.
"""


def _cell(kind, text, **more):
    lines = text.strip().splitlines(keepends=True)
    return {"cell_type": kind, "metadata": {}, "source": lines, **more}


def _code(text, printed=""):
    lines = printed.splitlines(keepends=True)
    output = {"output_type": "stream", "name": "stdout", "text": lines}
    return _cell(
        "code", text, execution_count=None, outputs=[output] if printed else []
    )


def written():
    """The notebook's text, of README's first program and what it prints."""
    program, printed = (
        block.text
        for block in pages.blocks("README.md")
        if block.language in ("python", "output")
    )
    definition, at, calls = program.partition("\n\n\nx = ")
    cells = [
        _cell("markdown", _SAYS),
        _code(definition),
        _code(at + calls, printed),
    ]
    kernel = {"display_name": "Python 3", "language": "python"}
    whole = {
        "cells": cells,
        "metadata": {"kernelspec": {**kernel, "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def test_it_is_readmes():
    assert NOTEBOOK.read_text() == written(), (
        "run python tests/docs/notebook_test.py"
    )


def test_it_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FFI_KIT_CACHE", str(tmp_path))
    scope = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] != "code":
            continue
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec("".join(cell["source"]), scope)
        shown = [line for out in cell["outputs"] for line in out["text"]]
        assert printed.getvalue() == "".join(shown)


if __name__ == "__main__":
    NOTEBOOK.write_text(written())
