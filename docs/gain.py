"""Draws docs/gain.svg, README's picture: python docs/gain.py.

The figures are those of the quickstart in docs/performance.md.
"""

from __future__ import annotations

import math
import pathlib
import re

HERE = pathlib.Path(__file__).absolute().parent
_LEFT, _WIDTH, _STEP = 250, 430, 34
_STYLE = (
    "text{font:14px sans-serif;fill:#24292f}.k{fill:#0969da}.x{fill:#8c959f}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.k{fill:#58a6ff}}"
)


def times() -> list[tuple[str, float]]:
    """What a calibration takes in milliseconds, by each program."""
    page = (HERE / "performance.md").read_text(encoding="utf-8")
    first = re.search(r"isotonic regression.*?([\d,.]+) ms +([\d.]+) ms", page)
    best = re.search(r"beside the best plain JAX +([\d,.]+) ms", page)
    assert first and best
    return [
        ("plain JAX, as one writes it", float(first[1].replace(",", ""))),
        ("the best plain JAX", float(best[1])),
        ("a C++ kernel, by the kit", float(first[2])),
    ]


def picture() -> str:
    """The bars, on a logarithmic scale from 0.1 ms."""
    rows = times()
    decades = math.log10(10 * max(time for _, time in rows))
    bars = []
    for i, (name, time) in enumerate(rows):
        y = 40 + i * _STEP
        width = _WIDTH * math.log10(10 * time) / decades
        kind = "k" if name.startswith("a C++") else "x"
        bars.append(
            f'<text x="{_LEFT - 10}" y="{y + 15}" text-anchor="end">{name}'
            f'</text><rect class="{kind}" x="{_LEFT}" y="{y}" height="20" '
            f'width="{width:.0f}"/><text x="{_LEFT + width + 8:.0f}" '
            f'y="{y + 15}">{time:,.1f} ms</text>'
        )
    title = "Isotonic regression of 43,264 values, two cores, log scale"
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 150">',
            f"<title>{title}</title><style>{_STYLE}</style>",
            f'<text x="{_LEFT}" y="24">{title}</text>',
            *bars,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    (HERE / "gain.svg").write_text(picture(), encoding="utf-8")
