"""The page when things go wrong, on small screens, in the dark, and for people without a mouse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser.conftest import EVIL, SCHEMES, Service, assert_axe_finds_nothing, chips, expect, rows, small_log, titles
from purerec.models.registry import make_model

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = pytest.mark.browser
OpenPage = Callable[..., "Page"]


# ---------------------------------------------------------------------- what can go wrong


def test_a_service_that_goes_away_and_comes_back(
    serve: Callable[..., Service], movies_folder: Path, open_page: OpenPage
) -> None:
    service = serve(movies_folder)
    page = open_page(service, "#/likes?item=50")
    expect(rows(page)).to_have_count(10)
    page.clock.install()
    before = titles(page)
    service.stop()
    rows(page).first.get_by_role("button", name=re.compile("^Like")).click()
    alert = page.locator("#connection")
    expect(alert).to_contain_text("The service does not answer.")
    expect(alert).to_contain_text("Trying again")
    expect(alert.get_by_role("button", name="Try now")).to_be_visible()
    assert titles(page) == before  # the old list stays
    service.start()
    page.clock.fast_forward(15_000)  # its longest wait between attempts, which grows if the start is slow
    expect(alert).to_be_hidden()  # by itself
    expect(chips(page)).to_have_count(2)
    expect(rows(page).locator("h3", has_text=before[0])).to_have_count(0)
    service.stop()


def test_a_token(serve: Callable[..., Service], movies_folder: Path, open_page: OpenPage) -> None:
    page = open_page(serve(movies_folder, token="open-sesame"), "#/likes?item=50")
    field = page.get_by_label("Access token")
    expect(field).to_be_focused()
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#token-error")).to_have_text("The service rejected this token.")
    expect(field).to_be_focused()
    field.fill("open-sesame")
    page.keyboard.press("Enter")
    expect(rows(page)).to_have_count(10)
    expect(page.locator("#token-form")).to_be_hidden()
    page.reload()
    expect(field).to_be_visible()  # it was not stored


def test_a_late_refusal_of_an_old_token_does_not_count_against_a_new_one(
    serve: Callable[..., Service], movies_folder: Path, open_page: OpenPage
) -> None:
    page = open_page(serve(movies_folder, token="open-sesame"), "#/likes?item=50")
    field = page.get_by_label("Access token")
    expect(field).to_be_focused()
    held: dict[str, Route] = {}

    def hold_the_old_list_and_the_new_model(route: Route) -> None:
        path = route.request.url.rpartition("/")[2]
        if (path, route.request.headers.get("authorization")) in {
            ("recommend", "Bearer wrong"),
            ("model", "Bearer open-sesame"),
        }:
            held[path] = route
        else:
            route.continue_()

    page.route("**/v1/*", hold_the_old_list_and_the_new_model)
    with page.expect_request("**/v1/recommend"):
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
    expect(page.locator("#token-error")).to_have_text("The service rejected this token.")
    with page.expect_request("**/v1/model"):
        field.fill("open-sesame")
        page.keyboard.press("Enter")
    with page.expect_response("**/v1/recommend"):
        held["recommend"].continue_()
    held["model"].continue_()
    expect(rows(page)).to_have_count(10)
    expect(page.locator("#token-form")).to_be_hidden()


def test_what_the_service_says_is_shown(movies: Service, open_page: OpenPage) -> None:
    page = open_page(movies)
    expect(rows(page)).to_have_count(10)
    answers = [(422, "history: too many items"), (503, "too many requests at once"), None]

    def answer(route: Route) -> None:
        planned = answers[0] if len(answers) == 1 else answers.pop(0)
        if planned is None:
            route.continue_()
            return
        body = json.dumps({"title": "no", "status": planned[0], "detail": planned[1]})
        route.fulfill(status=planned[0], body=body, content_type="application/problem+json")

    page.route("**/v1/recommend", answer)
    rows(page).first.get_by_role("button", name=re.compile("^Like")).click()
    expect(page.locator("#likes-list")).to_have_text("history: too many items")
    page.evaluate("location.hash = '#/likes?item=50&item=181'")
    expect(page.locator("#connection")).to_contain_text("The service cannot answer now. too many requests at once")
    expect(page.locator("#connection")).to_be_hidden()
    expect(rows(page)).to_have_count(10)


def test_a_late_answer_never_replaces_a_newer_one(movies: Service, open_page: OpenPage) -> None:
    page = open_page(movies)
    expect(rows(page)).to_have_count(10)
    held: list[Route] = []

    def hold_the_first(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route("**/v1/recommend", hold_the_first)
    page.evaluate("location.hash = '#/likes?item=50'")
    expect(chips(page)).to_have_count(1)
    page.evaluate("location.hash = '#/likes?item=50&item=121'")
    expect(page.locator(".reasons", has_text="Independence Day").first).to_be_visible()
    newer = titles(page)
    body = {"model": "x", "results": [{"user": None, "items": [], "unknown_items": []}]}
    held[0].fulfill(json=body)
    page.wait_for_timeout(300)
    assert titles(page) == newer


def test_models_that_give_everybody_the_same_and_items_without_titles(
    serve: Callable[..., Service], tmp_path: Path, open_page: OpenPage
) -> None:
    untitled = replace(small_log(), item_labels=None)
    service = serve(make_model("itempop").fit(untitled).save(tmp_path / "model"))
    page = open_page(service, "#/likes?item=b1")
    expect(page.locator("#likes-list-note")).to_contain_text("the same list to everybody")
    expect(chips(page)).to_have_text(["b1"])
    assert set(titles(page)) == set(EVIL) - {"b1"}
    expect(page.locator(".row .id")).to_have_count(0)
    page.goto(f"{service.url}/#/user?id=u1")
    expect(page.locator("#user-list-note")).to_contain_text("the same list to everybody")
    page.goto(f"{service.url}/#/model")
    expect(page.locator("#model-card")).to_contain_text("None are kept with this model")
    expect(page.locator("#model-card")).to_contain_text("No curve")


# ---------------------------------------------------------------------- for everybody, everywhere

PLACES = ("#/likes", "#/likes?item=50&item=181&item=nope", "#/user", "#/user?id=196", "#/user?id=nobody", "#/model")


def test_no_sideways_scrolling(movies: Service, evil: Service, open_page: OpenPage) -> None:
    others = ("#/likes", "#/likes?item=b6&item=b1", "#/user?id=u1", "#/model")
    for service, places in ((movies, PLACES), (evil, others)):
        page = open_page(service, width=768, height=800)  # to the page's scripts, all of these widths are small
        for place in places:
            page.goto(f"{service.url}/{place}")
            page.wait_for_load_state("networkidle")
            if "likes" in place:
                page.locator("#item-search").click()
                expect(page.get_by_role("option").first).to_be_visible()
            for width in (768, 360, 320):
                page.set_viewport_size({"width": width, "height": 800})
                assert page.evaluate("document.documentElement.scrollWidth") <= width, (service.url, place)


def test_axe_finds_nothing(movies: Service, open_page: OpenPage) -> None:
    # axe itself builds HTML from text, which the page's policy would block.
    page = open_page(movies, reduced_motion="reduce", bypass_csp=True)
    for place in PLACES:
        page.goto(f"{movies.url}/{place}")
        page.wait_for_load_state("networkidle")
        if place == PLACES[1]:
            expect(chips(page)).to_have_count(3)
            expect(page.locator('[aria-busy="true"]')).to_have_count(0)  # the previous list is gone
            rows(page).nth(1).get_by_role("button", name=re.compile("^More like")).click()
            expect(page.locator(".similar li").first).to_be_visible()
            page.locator("#item-search").fill("war")
            expect(page.get_by_role("option").first).to_be_visible()
        # A new fragment loads no document: what is still being fetched is dimmed, not meant to be read.
        expect(page.locator('[aria-busy="true"]')).to_have_count(0)
        assert_axe_finds_nothing(page)


PAIRS = [(text, under) for text in ("ink", "soft", "accent", "warn") for under in ("paper", "surface")]
PAIRS += [("ink", "sunken"), ("soft", "sunken"), ("ink", "accent-soft"), ("soft", "accent-soft")]
PAIRS += [("accent", "accent-soft"), ("accent-ink", "accent"), ("warn", "warn-soft"), ("ink", "mark")]
"""Colours of text, and their backgrounds."""


def test_contrast_of_the_colours(movies: Service, open_page: OpenPage) -> None:
    page = open_page(movies)
    names = sorted({name for pair in PAIRS for name in pair} | {"edge"})
    style = "names => names.map(n => getComputedStyle(document.documentElement).getPropertyValue('--' + n))"
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        colour = dict(zip(names, page.evaluate(style, names), strict=True))
        ratios = {pair: contrast(colour[pair[0]], colour[pair[1]]) for pair in PAIRS}
        assert {pair: ratio for pair, ratio in ratios.items() if ratio < 4.5} == {}, scheme
        assert contrast(colour["edge"], colour["surface"]) >= 3, scheme  # the border of the fields


def contrast(one: str, other: str) -> float:
    """WCAG 2: (lighter + 0.05) / (darker + 0.05)."""
    low, high = sorted(luminance(colour) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour.strip().lstrip("#")[n : n + 2], 16) / 255 for n in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_skipping_to_the_content_keeps_the_state(movies: Service, open_page: OpenPage) -> None:
    page = open_page(movies, "#/likes?item=50")
    expect(rows(page)).to_have_count(10)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    assert page.url.endswith("#/likes?item=50")
    page.keyboard.press("Tab")
    expect(page.locator("#item-search")).to_be_focused()


def test_focus_can_be_seen_everywhere(movies: Service, open_page: OpenPage) -> None:
    page = open_page(movies, "#/likes?item=50&item=181")
    expect(rows(page)).to_have_count(10)
    seen = 0
    look = """() => {
      const element = document.activeElement, style = getComputedStyle(element);
      const ring = style.boxShadow !== "none" || parseFloat(style.outlineWidth) > 0;
      return element === document.body ? null : [element.tagName + "." + element.className, ring];
    }"""
    for _ in range(20):
        page.keyboard.press("Tab")
        found = page.evaluate(look)
        if found is not None:
            seen += 1
            assert found[1], found[0]
    assert seen > 15
