"""README's picture: eight figures in words people know, as bars."""

from __future__ import annotations

import html
import math

from figures import Figure, digits, duration

# What people call it, and the cell that shows it.
IN_WORDS = (
    ("sort 1M floats", "accelerate/sort_f32/1000000/fresh"),
    ("order 1M rows by two keys", "accelerate/lexsort/1000000/fresh"),
    ("median of 1M floats", "accelerate/median/1000000/fresh"),
    ("shuffle 1M floats", "accelerate/permutation/1000000/fresh"),
    ("top 64 of each of 1024 rows", "accelerate/top_k,_64/1024x1024/fresh"),
    ("running sum of 1M floats", "accelerate/cumsum_f32/1000000/fresh"),
    (
        "distinct values of 1M integers",
        "accelerate/unique_of_the_kit/1000000/fresh",
    ),
    (
        "find 1M integers in a list of 4096",
        "accelerate/isin_of_the_kit/1000000/fresh",
    ),
)
_LEFT, _WIDTH, _ROW, _TOP = 235, 380, 26, 34  # of the bars, in pixels


def bars(figures: list[Figure]) -> str:
    """The text of bars.svg: how many times as fast as JAX's own code.

    The axis is logarithmic, and ends at the next power of ten.
    """
    found = {figure.name: figure for figure in figures}
    rows = [(words, found[name]) for words, name in IN_WORDS]
    rows.sort(key=lambda row: -row[1].ratios["xla"])
    decades = math.ceil(math.log10(rows[0][1].ratios["xla"]))
    height = _TOP + _ROW * len(rows) + 12
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="760" '
        f'height="{height}" font-family="sans-serif" font-size="13">',
        "<title>How many times as fast as JAX's own code on the CPU</title>",
        '<rect width="100%" height="100%" rx="6" fill="white"/>',
    ]
    for decade in range(decades + 1):
        x = _LEFT + _WIDTH * decade / decades
        lines.append(
            f'<path d="M{x:.0f} {_TOP - 6}V{height - 10}" stroke="#ddd"/>'
            f'<text x="{x:.0f}" y="20" text-anchor="middle" fill="#777">'
            f"{10**decade} x</text>"
        )
    for place, (words, figure) in enumerate(rows):
        ratio, times = figure.ratios["xla"], figure.microseconds
        width = max(_WIDTH * math.log10(ratio) / decades, 1)
        y = _TOP + _ROW * place
        factor = digits(ratio) if ratio < 10 else f"{ratio:.0f}"
        took = duration(times["kit"])
        if "xla" in times:
            took = f"{duration(times['xla'])} to {took}"
        lines.append(
            f'<text x="{_LEFT - 8}" y="{y + 15}" text-anchor="end" '
            f'fill="#222">{html.escape(words)}</text>'
            f'<rect x="{_LEFT}" y="{y + 2}" width="{width:.0f}" height="18" '
            f'fill="#3b6fb6"/><text x="{_LEFT + width + 6:.0f}" y="{y + 15}" '
            f'fill="#222">{factor} x<tspan fill="#777">, {took}</tspan></text>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"
