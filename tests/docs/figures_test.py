"""Every figure behind a marker is that of a file of measurements."""

import json
import re

import markdown_it
import pages
import pytest

from bench import page as figures
from kit_page import KIT

FILES = {
    publication.data: json.loads((pages.ROOT / publication.data).read_text())
    for publication in (KIT,)
}
MARKER = re.compile(r"<!-- (?:times?|machine) [^>]*-->[^<\n]*")


def filled(text):
    for path, data in FILES.items():
        text = figures.fill(text, data, path)
    return text


@pytest.mark.parametrize("page", pages.pages())
def test_figures_are_current(page):
    text = (pages.ROOT / page).read_text()
    assert filled(text) == text, "run //benchmarks:compare -- --pages"


@pytest.mark.parametrize("page", pages.pages())
def test_every_marker_has_a_figure(page):
    """One that no file fills in would never change."""
    text = (pages.ROOT / page).read_text()
    for marker in MARKER.findall(text):
        spoiled = re.sub(r"(?<=-->).*", "", marker)
        value = {"time ": "0 us", "times": "0", "machi": "?"}[marker[5:10]]
        end = "<!-- / -->" if value == "?" else ""
        assert filled(spoiled + value + end) != spoiled + value + end, marker


@pytest.mark.parametrize("page", pages.pages())
def test_no_marker_begins_a_line(page):
    """It would begin a block of HTML there, and end the paragraph."""
    text = (pages.ROOT / page).read_text()
    tokens = markdown_it.MarkdownIt("commonmark").parse(text)
    blocks = [t.content for t in tokens if t.type == "html_block"]
    assert not [b for b in blocks if MARKER.match(b.strip())]
