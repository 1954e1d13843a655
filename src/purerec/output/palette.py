"""Colours of reports and charts: CSS variables with a value for light and one for dark pages."""

from __future__ import annotations

INK, DIM, LINE = "var(--ink)", "var(--dim)", "var(--line)"

_LIGHT = {
    "ink": "#1d2733",
    "dim": "#5d6975",
    "line": "#dfe4ea",
    "page": "#ffffff",
    "card": "#f6f8fa",
    "good": "#1a7f46",
    "part": "#8a6100",
    "bad": "#b3261e",
}
_DARK = {
    "ink": "#e4e9ee",
    "dim": "#9aa6b2",
    "line": "#333d47",
    "page": "#14191f",
    "card": "#1c232b",
    "good": "#67c98a",
    "part": "#e0b94f",
    "bad": "#f2857d",
}
_SERIES = [
    ("#1668c7", "#64a8f0"),
    ("#c2560f", "#f0a060"),
    ("#1f8a4c", "#67c98a"),
    ("#9b3fb5", "#cf8fe3"),
    ("#0f8490", "#5fd0dc"),
    ("#8a6d00", "#d9bd4a"),
    ("#c2185b", "#ff7fb0"),
    ("#5b6775", "#a9b4c0"),
]


def colour(n: int) -> str:
    """The colour of the n-th series of a chart."""
    return f"var(--c{n % len(_SERIES)})"


def style() -> str:
    """The variables as CSS. Print uses the light values."""
    light = _LIGHT | {f"c{n}": pair[0] for n, pair in enumerate(_SERIES)}
    dark = _DARK | {f"c{n}": pair[1] for n, pair in enumerate(_SERIES)}
    return (
        f":root {{ {_declared(light)} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_declared(dark)} }} }}"
    )


def _declared(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())
