"""How Sphinx makes the site out of the tree's pages: docs/site/make_site.py."""

from __future__ import annotations

import os
import posixpath
import re

from pygments.lexers.shell import BashLexer
from sphinx.application import Sphinx

project = "xla_ffi_kit"
author = "The xla_ffi_kit Authors"
copyright = f"2026, {author}"
release = version = os.environ["XLA_FFI_KIT_VERSION"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
root_doc = "index"
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]
# Pages that are read in the repository too begin below their title.
suppress_warnings = ["myst.header"]

html_theme = "sphinx_book_theme"
html_title = f"xla_ffi_kit {release}"
html_theme_options = {
    "navbar_persistent": [],
    "show_toc_level": 2,
    "use_download_button": False,
}
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["static"]
html_css_files = ["site.css"]

autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
# Docstrings are Markdown as far as code goes.
default_role = "code"
napoleon_use_rtype = False

# Where the repository's files can be read: links to them are left out if empty.
SOURCE_URL = os.environ.get("XLA_FFI_KIT_SOURCE_URL", "")

_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1\s*?$", re.M | re.S)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def _link(found: re.Match[str], page: str, env: object) -> str:
    is_picture, text, target = found.groups()
    path, _, _ = target.partition("#")
    if is_picture or not path or "://" in path:
        return found[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
    if path.removesuffix(".md") in env.found_docs:  # type: ignore[attr-defined]
        return found[0]
    return f"[{text}]({SOURCE_URL}/{path})" if SOURCE_URL else text


def _leave_out_sources(app: Sphinx, page: str, content: list[str]) -> None:
    """Pages link to files of the repository that the site does not have."""
    parts, at = [], 0
    for fence in [*_FENCE.finditer(content[0]), None]:
        end = fence.start() if fence else len(content[0])
        prose = content[0][at:end]
        parts.append(_LINK.sub(lambda f: _link(f, page, app.env), prose))
        if fence:
            parts.append(fence[0])
            at = fence.end()
    content[0] = "".join(parts)


def _examples_are_code(
    app: Sphinx,
    kind: str,
    name: str,
    of: object,
    options: object,
    lines: list[str],
) -> None:
    """A section `Example:` of a docstring holds code."""
    lines[:] = [
        new
        for line in lines
        for new in (["Example::", ""] if line == "Example:" else [line])
    ]


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_lexer("bazelrc", BashLexer)
    # Before napoleon.
    app.connect("autodoc-process-docstring", _examples_are_code, priority=1)
    app.connect("source-read", _leave_out_sources)
