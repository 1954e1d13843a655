"""Small HTML tables for notebooks, plain enough for light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from purerec.errors import counted

if TYPE_CHECKING:
    from purerec.data.interactions import Interactions
    from purerec.data.splits import Split


def html_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> str:
    """A table below a title; numbers are aligned to the right."""
    sides = ["right" if isinstance(cell, int | float) else "left" for cell in rows[0]]
    cells = zip(headings, sides, strict=True)
    head = "".join(f"<th style='text-align:{side}'>{escape(heading)}</th>" for heading, side in cells)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    below = f"<p><small>{escape(note)}</small></p>" if note else ""
    return f"<div><p><b>{escape(title)}</b></p><table><tr>{head}</tr>{body}</table>{below}</div>"


def _cell(value: Any) -> str:
    if isinstance(value, int | float):
        text = f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
        return f"<td style='text-align:right'>{text}</td>"
    return f"<td style='text-align:left'>{escape(str(value))}</td>"


def sizes_told(data: Interactions) -> str:
    """'943 users, 1,682 items, ...'"""
    sizes = {"user": data.n_users, "item": data.n_items, "interaction": len(data), "positive": data.n_positives}
    return ", ".join(counted(n, what) for what, n in sizes.items())


def interactions_html(data: Interactions) -> str:
    """The sizes of a log."""
    counts = [data.n_users, data.n_items, len(data), data.n_positives, f"{data.density:.2%}"]
    rating = data.positive_rating
    note = "every row is a positive" if rating is None else f"positives are ratings of {rating:g} and more"
    return html_table(data.name, ["users", "items", "interactions", "positives", "density"], [counts], note)


def split_html(split: Split) -> str:
    """The sizes of the parts of a split."""
    named = {"train": split.train, "valid": split.valid, "test": split.test}
    parts = {name: part for name, part in named.items() if part is not None}
    rows = [
        [
            name,
            len(part),
            part.n_positives,
            int((part.positives.counts > 0).sum()),
            int((part.positives.item_counts > 0).sum()),
        ]
        for name, part in parts.items()
    ]
    headings = ["part", "interactions", "positives", "users with one", "items with one"]
    note = split.cold.describe() if split.cold else ""
    return html_table(f"{split.train.name}, {split.method}", headings, rows, note)
