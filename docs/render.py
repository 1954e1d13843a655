"""Write the tables and figures in README.md and docs/ from results/*.json: `make docs`. Numbers are never typed in.

A table goes between <!-- begin NAME --> and <!-- end NAME -->; NAME is a function of the modules next to this one.
With --check nothing is written, and the exit code says whether everything is up to date.
"""

from __future__ import annotations

import re
import sys

import tables_benchmarks  # noqa: F401  # adds its tables to TABLES
import tables_experiments  # noqa: F401
import tables_scaling  # noqa: F401
import tables_settings  # noqa: F401
import tables_study  # noqa: F401
import tables_tutorial  # noqa: F401
from figures import stale as stale_figures
from tables import ROOT, rendered


def render(text: str) -> str:
    def fill(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- begin {name} -->\n{rendered(name)}\n<!-- end {name} -->"

    return re.sub(r"<!-- begin (\w+) -->\n(?:.*?\n)?<!-- end \1 -->", fill, text, flags=re.DOTALL)


def main() -> int:
    stale = stale_figures(write="--check" not in sys.argv)
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        before = page.read_text()
        after = render(before)
        if before != after:
            stale.append(page.name)
            if "--check" not in sys.argv:
                page.write_text(after)
    print(f"{'stale' if '--check' in sys.argv else 'written'}: {', '.join(stale) or 'nothing'}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
