"""What mkdocs is told besides mkdocs.yml: pages that are made of other things, and formulas without a script.

The first page is the README. Files that pages link to outside of docs/ come along. The reference is made of the code.
Formulas become MathML, so that the site asks no other host for anything.
"""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))

from reference import PAGES  # it is beside this file, which is not a package

ROOT = Path(__file__).parents[2]
BESIDE = ("CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "Dockerfile", "examples/*", "experiments/*.toml")
"""Files outside of docs/ that pages link to"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and files that are not in docs/."""
    for pattern in BESIDE:
        for path in ROOT.glob(pattern):
            name = str(path.relative_to(ROOT))
            files.append(File.generated(config, name, content=path.read_bytes()))
    readme = (ROOT / "README.md").read_text()
    files.append(File.generated(config, "index.md", content=readme.replace("](docs/", "](")))
    for name, page in PAGES.items():
        files.append(File.generated(config, name, content=page()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links that lead out of docs/ lead to the copies here."""
    return markdown.replace("](../", "](") if "/" not in page.file.src_uri else markdown


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Formulas as MathML."""
    return re.sub(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', _formula, content, flags=re.DOTALL)


def _formula(found: re.Match[str]) -> str:
    return convert(html.unescape(found[3]), display="block" if found[2] == "[" else "inline")
