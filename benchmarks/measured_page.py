"""A page of figures and the ratios in a README, from a file of measurements.

What `compare -- --publish` writes; `Publication` says where.
"""

from __future__ import annotations

import pathlib
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from figures import Figure, digits, newest, read

# The ratio to XLA's own code on the newest JAX.
NEWEST = "xla, newest"


class Publication(NamedTuple):
    """Where the figures of a benchmark stand.

    Attributes:
      data: the file of measurements.
      page: the page of all figures.
      introduction: the page's first lines, with {machine} and {newest}.
      tables: the page's tables. A figure stands in the first that takes it.
      readme: the README with ratios in it.
      said: what stands before and after each of these, and its cell.
      drawn: pictures, by path.
    """

    data: str
    page: str
    introduction: str
    tables: tuple[Table, ...]
    readme: str
    said: tuple[tuple[str, str, str], ...]
    drawn: dict[str, Callable[[list[Figure]], str]]


class Table(NamedTuple):
    """A table of the page, with the figures of some cells."""

    title: str
    takes: Callable[[Figure], bool]
    heading: str
    label: Callable[[Figure], str]
    rest: Callable[[Figure], Iterable[str]]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _machine(environment: dict[str, Any]) -> str:
    e = environment
    # Linux writes "always [madvise] never".
    huge = re.sub(r".*\[(\w+)\].*", r"\1", e["huge pages"])
    return (
        f"{e['cores']} cores ({e['cpu']}, {', '.join(e['isa'])}), jax "
        f"{e['jax']}, huge pages on {huge}"
    )


def _slower(figures: Sequence[Figure]) -> str:
    below = [f for f in figures if f.ratios["xla"] < 1]
    names = ", ".join(f"`{f.name}` {digits(f.ratios['xla'])}" for f in below)
    text = (
        f"XLA's own code is faster in {len(below)} of the {len(figures)} "
        f"cells: {names or 'none'}."
    )
    return f"\n{textwrap.fill(text, 80, break_on_hyphens=False)}\n"


def page(
    publication: Publication,
    environment: dict[str, Any],
    figures: Sequence[Figure],
    newest: dict[str, Any],
) -> str:
    """The text of the page."""
    ratios = newest.get("x", {})
    left = [
        f._replace(ratios=f.ratios | {NEWEST: ratios[f.name]})
        if f.name in ratios
        else f
        for f in figures
        if not f.name.startswith("sweep/")
    ]
    said = f' "Newest JAX" is {newest["jax"]}.' if newest else ""
    text = publication.introduction.format(
        machine=_machine(environment), newest=said
    )
    text += _slower(left)
    for table in publication.tables:
        taken = [figure for figure in left if table.takes(figure)]
        left = [figure for figure in left if not table.takes(figure)]
        if taken:
            count = table.heading.count("|") + 1
            lines = [_row([table.heading]), f"|{'---|' * count}"]
            lines += [_row([table.label(f), *table.rest(f)]) for f in taken]
            text += f"\n## {table.title}\n\n" + "\n".join(lines) + "\n"
    return text


def readme(
    publication: Publication, text: str, figures: Sequence[Figure]
) -> str:
    """The text of the README with the measured ratios in it."""
    found = {figure.name: figure for figure in figures}
    for before, after, name in publication.said:
        ratio = digits(found[name].ratios["xla"])
        pattern = f"(?<={re.escape(before)})[0-9.]+(?={re.escape(after)})"
        text, count = re.subn(pattern, ratio, text)
        assert count == 1, (
            f"{publication.readme}: {count} times {before!r}...{after!r}"
        )
    return text


def written(publication: Publication, root: pathlib.Path) -> dict[str, str]:
    """What the files below `root` ought to contain, by path."""
    text = (root / publication.data).read_text()
    environment, figures = read(text)
    said = (root / publication.readme).read_text()
    return {
        publication.page: page(publication, environment, figures, newest(text)),
        publication.readme: readme(publication, said, figures),
        **{path: draw(figures) for path, draw in publication.drawn.items()},
    }


def write(publication: Publication, root: pathlib.Path) -> None:
    """Writes the page, the pictures and the README below `root`."""
    for path, text in written(publication, root).items():
        (root / path).write_text(text)
