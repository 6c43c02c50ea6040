"""The page on embedding shows what tools/release writes for an archive."""

import importlib.machinery
import importlib.util
import re

import pages
import pytest

_LOADER = importlib.machinery.SourceFileLoader(
    "release", str(pages.ROOT / "tools/release")
)
release = importlib.util.module_from_spec(
    importlib.util.spec_from_loader("release", _LOADER)
)
_LOADER.exec_module(release)

(VERSION,) = re.findall(
    'VERSION = "(.*)"', (pages.ROOT / "python/version.bzl").read_text()
)
VALUES = {
    "version": VERSION,
    "archive": f"xla_ffi_kit-{VERSION}.tar.gz",
    "sha256": "SHA256",
    "integrity": "sha256-BASE64",
    "url": "URL",
}


@pytest.mark.parametrize("template", ["WORKSPACE", "MODULE"])
def test_the_page_shows_it(template):
    shown = [block.text for block in pages.blocks("docs/embedding.md")]
    assert getattr(release, template).format(**VALUES) in shown
