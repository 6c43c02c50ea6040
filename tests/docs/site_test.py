"""The site: every link leads somewhere, and the search finds things."""

import html.parser
import json
import pathlib
import re
import sys
import urllib.parse

import pytest

SITE = pathlib.Path(sys.argv[1])
PAGES = sorted({*SITE.rglob("*.html")} - {*SITE.glob("_static/**/*.html")})


class Page(html.parser.HTMLParser):
    """The links, the anchors and the title of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors, self.title = [], set(), ""
        self._in_title = False
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values.get("id"), values.get("name")}
        self.links += [values[k] for k in ("href", "src") if values.get(k)]
        self._in_title = tag == "title"

    def handle_data(self, data):
        if self._in_title:
            self.title += data
            self._in_title = False


FOUND = {path.resolve(): Page(path) for path in PAGES}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.name))
def test_links_lead_somewhere(path):
    page = FOUND[path.resolve()]
    assert "xla_ffi_kit" in page.title
    for link in page.links:
        parts = urllib.parse.urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        place = path.parent / urllib.parse.unquote(parts.path)
        target = (place if parts.path else path).resolve()
        assert target.exists(), link
        if parts.fragment and target in FOUND:
            assert parts.fragment in FOUND[target].anchors, link


@pytest.mark.parametrize(
    "word",
    ["FfiOp", "rms_norm", "embedding", "enable", "ParallelFor", "gdb"],
)
def test_the_search_finds(word):
    text = (SITE / "searchindex.js").read_text()
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    titles = " ".join(index["alltitles"]).lower()
    terms = {term.lower() for term in index["terms"]}
    objects = str(index["objects"]).lower()
    word = word.lower()
    assert word in terms or word in titles or word in objects


def test_the_reference_has_the_public_names():
    text = (SITE / "python.html").read_text()
    for name in (
        *("FfiOp", "HandlerLibrary", "testing.check_op", "extend.divided"),
        *("rms_norm", "relu", "modular_add", "errors.BuildError"),
    ):
        assert f'id="xla_ffi_kit.{name}"' in text, name


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("headers", "CheckRankAtLeast"),
        ("docs/handlers", "xla_ffi_kit.rms_norm"),
        ("commands", "usage: python -m xla_ffi_kit build"),
        ("docs/errors", "HandlerLibraryError"),
        ("docs/environment", "XLA_FFI_KIT_CACHE"),
    ],
)
def test_the_reference_has_each_layer(page, said):
    text = re.sub("<[^>]*>", "", (SITE / f"{page}.html").read_text())
    assert said in text
