"""The benchmark as a picture: SVG, which needs no library."""

from __future__ import annotations

import html
from collections.abc import Sequence

from gpu_times import Row

_LEFT, _WIDTH, _LINE, _TOP = 260, 520, 22, 46
_COLORS = {"kit": "#1f77b4", "xla": "#ff7f0e", "copy": "#999999"}
_COLORS |= {"torch": "#2ca02c", "torch.compile": "#9467bd"}
_COLORS |= {"liger": "#8c564b", "quack": "#d62728"}


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{html.escape(text)}</text>"
    )


def draw(rows: Sequence[Row], title: str) -> str:
    """GB/s of each contestant, a line for each cell, as an SVG document."""
    largest = max(max(row.gigabytes_per_second.values()) for row in rows)
    height = _TOP + _LINE * len(rows) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 60}"'
        f' height="{height}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        _text(8, 18, title),
    ]
    present = {name for row in rows for name in row.gigabytes_per_second}
    shown = [item for item in _COLORS.items() if item[0] in present]
    for i, (name, color) in enumerate(shown):
        x = _LEFT + 90 * i
        parts.append(
            f'<circle cx="{x}" cy="{_TOP - 14}" r="5" fill="{color}"/>'
        )
        parts.append(_text(x + 10, _TOP - 10, name))
    for i, row in enumerate(rows):
        y = _TOP + _LINE * i + _LINE / 2
        parts.append(_text(_LEFT - 8, y + 4, row.name, "end"))
        parts.append(
            f'<line x1="{_LEFT}" y1="{y}" x2="{_LEFT + _WIDTH}" y2="{y}" '
            'stroke="#eeeeee"/>'
        )
        for name, color in shown:
            if name in row.gigabytes_per_second:
                x = _LEFT + _WIDTH * row.gigabytes_per_second[name] / largest
                parts.append(
                    f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{color}"/>'
                )
    bottom = height - 12
    parts.append(_text(_LEFT, bottom, "0"))
    parts.append(_text(_LEFT + _WIDTH, bottom, f"{largest:.0f} GB/s", "middle"))
    return "\n".join([*parts, "</svg>", ""])
