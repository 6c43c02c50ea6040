"""What tools/release writes for an archive; the page on embedding shows it."""

import importlib.machinery
import importlib.util
import json
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


def test_the_registrys_entry_names_the_archive(tmp_path):
    archive = tmp_path / VALUES["archive"]
    wheels = {
        (name, release.platform.machine()): tmp_path / f"{name}.whl"
        for name in release.PACKAGES
    }
    for path in (archive, *wheels.values()):
        path.write_text(path.name)
    url = "https://host/path/"
    release.write_notes(tmp_path, VERSION, "changes", url, archive, wheels)
    entry = tmp_path / ".bcr"
    source = json.loads((entry / "source.template.json").read_text())
    notes = (tmp_path / "NOTES.md").read_text()
    assert source["url"] == f"https://host/path/{archive.name}"
    # The same archive as in MODULE.bazel's lines.
    for key, value in source.items():
        assert f'"{value}"' in notes, key
    metadata = json.loads((entry / "metadata.template.json").read_text())
    assert metadata["repository"] == ["https://host/path"]
    assert "@xla_ffi_kit//" in (entry / "presubmit.yml").read_text()
