"""The table of the page: what it compares is equal; its files and lengths."""

import pages

import times

PAGE = pages.ROOT / "docs/external_library.md"


def test_the_page_has_this_table(monkeypatch, capsys):
    monkeypatch.setattr(times, "medians", lambda *_: [1, 1])
    monkeypatch.setattr(times.sys, "argv", ["times.py"])
    times.main()  # compares the results
    rows = [
        line.split(" | ")[:3] for line in capsys.readouterr().out.split("\n")
    ]
    lines = PAGE.read_text().splitlines()
    shown = [line.split(" | ")[:3] for line in lines if "libraries/" in line]
    assert [row for row in shown if row[-1].isdigit()] == rows[:-1]
    assert all(int(row[-1]) <= 120 for row in rows[:-1])
