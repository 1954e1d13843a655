"""Reports in a browser, as files without a network: for a study, and for a fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import ROOT, need

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser]
need("vl_convert")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on all results of this clone, and on charts of every shape."""
    from output.study.made import CHARTS, one, swept
    from purerec.output.study.report import study_report
    from purerec.output.study.results import read

    made = {"figure-prior": swept() | {"quick": True}, "figure-game": one("figure-game", charts=CHARTS)}
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(study_report({**made, **read(ROOT / "results")}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def fit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import purerec as pr
    from purerec.output.report import fit_report

    data = pr.make_world(users=80, items=40).observed
    path = tmp_path_factory.mktemp("report") / "fit.html"
    path.write_text(fit_report(pr.PURE(epochs=4, pretrain_epochs=2, dim=2).fit(data)), encoding="utf-8")
    return path


@pytest.fixture
def look(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a file; it must load nothing else, and report no errors."""
    opened: list[tuple[Page, list[str]]] = []

    def new(path: Path, *, width: int = 1280, **options: object) -> Page:
        page = browser.new_context(viewport={"width": width, "height": 900}, **options).new_page()
        wrong: list[str] = []
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: wrong.append(request.url) if request.url != path.as_uri() else None)
        opened.append((page, wrong))
        page.goto(path.as_uri())
        return page

    yield new
    for page, wrong in opened:
        page.context.close()
        assert wrong == []


@pytest.mark.parametrize("width", [1280, 390])
def test_every_table_and_figure_is_there_and_fits(look: Callable[..., Page], study: Path, width: int) -> None:
    from purerec.output.study.figures import charts_of, figure_specs
    from purerec.output.study.results import read

    page = look(study, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    sections = page.locator("section").evaluate_all("all => all.map(one => one.id)")
    results = read(ROOT / "results")
    drawn = [spec.name for spec in figure_specs() if charts_of(spec, results)]
    for name in (*(f"figure-{each}" for each in (*drawn, "prior", "game")), "table-table2", "claims"):
        assert name in sections
    for n in range(charts := page.locator("svg.chart").count()):
        box = page.locator("svg.chart").nth(n).bounding_box()
        assert box is not None
        assert box["width"] > 250
        assert box["height"] > 120
    assert charts > 6


def test_links_lead_to_sections(look: Callable[..., Page], study: Path) -> None:
    page = look(study)
    for target in page.locator("a").evaluate_all("all => all.map(one => one.getAttribute('href'))"):
        assert page.locator(f"[id='{target.removeprefix('#')}']").count() == 1


def test_a_mark_shows_its_value_on_hover(look: Callable[..., Page], study: Path) -> None:
    page = look(study)
    chart = page.locator("#figure-prior svg.chart").first
    title = chart.locator("path > title").first
    assert "at prior" in (title.text_content() or "")
    # The mark itself is the topmost element there, so the browser shows its title.
    assert title.evaluate("""title => {
        const mark = title.parentNode; mark.scrollIntoView({block: 'center'});
        const box = mark.getBoundingClientRect();
        const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
        return top === mark || top.querySelector('title') !== null }""")


def test_light_dark_and_paper(look: Callable[..., Page], study: Path) -> None:
    def seen(page: Page) -> tuple[str, str]:
        text = "getComputedStyle(document.querySelector('svg.chart text')).fill"
        return page.evaluate("getComputedStyle(document.body).backgroundColor"), page.evaluate(text)

    page = look(study, color_scheme="light")
    light = seen(page)
    page.emulate_media(color_scheme="dark")
    dark = seen(page)
    assert light[0] == "rgb(255, 255, 255)"
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    page.emulate_media(media="print", color_scheme="dark")
    assert seen(page)[0] == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()


LEAVE_OUT_ROWS_THAT_LOOK_LIKE_ANOTHER = """() => {
    const look = one => {
        const {color, backgroundColor, fontSize, fontWeight} = getComputedStyle(one);
        const attributes = one.getAttributeNames().join(' ');
        return [one.tagName, attributes, one.className, color, backgroundColor, fontSize, fontWeight].join();
    };
    const rows = [...document.querySelectorAll('table')].flatMap(table => {
        const seen = new Set();
        return [...table.querySelectorAll('tbody tr')].filter(row => {
            const looks = [row, ...row.querySelectorAll('*')].map(look).join(';');
            return seen.has(looks) || !seen.add(looks);
        });
    });
    rows.forEach(row => row.remove());
    return rows.length }"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast_and_charts_have_alternatives(
    look: Callable[..., Page], study: Path, scheme: str
) -> None:
    need("axe_playwright_python")
    from axe_playwright_python.sync_playwright import Axe

    page = look(study, color_scheme=scheme)
    assert page.evaluate(LEAVE_OUT_ROWS_THAT_LOOK_LIKE_ANOTHER) > 100  # or axe checks thousands of similar cells
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_the_report_of_a_fit_looks_the_same(look: Callable[..., Page], fit: Path) -> None:
    page = look(fit, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("svg.chart").count() >= 4
    labels = page.locator("svg.chart").evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
    assert any(re.match(r"D on positives.*: D against epoch\. positive from", label) for label in labels)
