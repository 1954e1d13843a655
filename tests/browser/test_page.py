"""The web page in a browser: finding, liking, reasons, known users, the model card; titles are text."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from browser.conftest import EVIL, Service, chips, expect, rows, titles

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
OpenPage = Callable[..., "Page"]
STAR_WARS = "Star Wars (1977)"


def tab_to(page: Page, selector: str) -> None:
    """Press Tab as often as it takes."""
    for _ in range(60):
        if page.evaluate("s => document.activeElement.matches(s)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab never got to {selector}")


# ---------------------------------------------------------------------- what the page is for


def test_find_like_reasons_and_remove_with_the_keyboard_only(movies: Service, open_page: OpenPage) -> None:
    page = open_page(movies)
    expect(page.locator("#likes-list-title")).to_have_text("Popular with everybody")
    expect(rows(page)).to_have_count(10)

    tab_to(page, "#item-search")
    page.keyboard.type("star wars")
    expect(page.get_by_role("option")).to_have_count(1)
    field = page.locator("#item-search")
    expect(field).to_have_attribute("aria-expanded", "true")
    expect(field).to_have_attribute("aria-activedescendant", "item-options-0")
    page.keyboard.press("Enter")
    expect(chips(page)).to_have_text([STAR_WARS])
    expect(field).to_be_focused()
    expect(page.locator("#likes-list-title")).to_have_text("Recommended for you")
    expect(rows(page)).to_have_count(10)
    expect(rows(page).first.locator(".reasons")).to_have_text(f"Because you liked {STAR_WARS}")
    expect(page.locator("#live")).to_have_text("10 recommendations for what you like.")
    before = titles(page)
    assert STAR_WARS not in before

    tab_to(page, '.row:nth-child(2) [data-do="like"]')
    page.keyboard.press("Enter")
    expect(chips(page)).to_have_text([STAR_WARS, before[1]])
    expect(rows(page).locator("h3", has_text=before[1])).to_have_count(0)
    expect(page.locator(".reasons", has_text="Because you liked").first).to_be_visible()
    after = titles(page)
    assert after != before
    assert before[1] not in after
    assert page.evaluate("document.activeElement.dataset.do") == "like"  # ready to like the next one

    tab_to_chip = page.locator("#liked-chips button").first
    tab_to_chip.focus()
    page.keyboard.press("Delete")
    expect(chips(page)).to_have_text([before[1]])
    expect(page.locator("#liked-chips button").first).to_be_focused()
    page.keyboard.press("Backspace")
    expect(page.locator("#likes-list-title")).to_have_text("Popular with everybody")
    expect(field).to_be_focused()


def test_the_list_of_suggestions_is_a_combobox(movies: Service, open_page: OpenPage) -> None:
    page = open_page(movies)
    field = page.get_by_role("combobox", name="Find by title")
    field.focus()
    page.keyboard.press("ArrowDown")  # without text: popular items
    expect(page.get_by_role("option")).to_have_count(20)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(field).to_have_attribute("aria-activedescendant", "item-options-1")
    expect(page.get_by_role("option", selected=True)).to_have_count(1)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(field).to_have_attribute("aria-activedescendant", "item-options-19")
    page.keyboard.press("Escape")
    expect(field).to_have_attribute("aria-expanded", "false")
    expect(page.get_by_role("option")).to_have_count(0)
    field.fill("xyzzy")
    expect(page.locator("#view-likes .popup-note")).to_have_text("Nothing found for “xyzzy”.")
    page.keyboard.press("Enter")
    expect(chips(page)).to_have_count(0)
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(field).to_have_value("")
    page.keyboard.type("fargo")
    page.keyboard.press("Enter")  # faster than the answer: it is taken when it comes
    expect(chips(page)).to_have_text(["Fargo (1996)"])
    field.fill("far")
    page.get_by_role("option", name=re.compile("Fargo")).click()  # an item is not liked twice
    expect(chips(page)).to_have_text(["Fargo (1996)"])


def test_a_row_says_where_it_was_before(movies: Service, open_page: OpenPage) -> None:
    page = open_page(movies)
    expect(rows(page)).to_have_count(10)
    page.goto(f"{movies.url}/#/likes?item=50")
    expect(page.locator("#likes-list-title")).to_have_text("Recommended for you")
    expect(page.locator(".row .pill")).to_have_count(0)  # nothing has moved: the list before was everybody's
    before = titles(page)
    rows(page).nth(1).locator('[data-do="like"]').click()
    expect(chips(page)).to_have_text([STAR_WARS, before[1]])
    expect(page.locator(".row .pill", has_text="was 3rd")).to_have_count(1)
    told = ["".join(row.locator(".pill").all_inner_texts()) for row in rows(page).all()]
    assert told == [_was(name, place, before) for place, name in enumerate(titles(page))]
    assert "was not listed" in told


def _was(name: str, place: int, before: list[str]) -> str:
    """What the page should say about an item in this place."""
    if name not in before:
        return "was not listed"
    was = before.index(name)
    ordinal = {0: "1st", 1: "2nd", 2: "3rd"}.get(was, f"{was + 1}th")
    return "" if was == place else f"{'↑' if was > place else '↓'} was {ordinal}"


def test_more_like_this(movies: Service, open_page: OpenPage) -> None:
    page = open_page(movies, "#/likes?item=50")
    button = rows(page).nth(1).get_by_role("button", name=re.compile("^More like"))
    button.click()
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".similar li")).to_have_count(6)
    assert "similar=" in page.url
    other = page.locator(".similar li").filter(has=page.get_by_role("button", pressed=False)).first
    title = other.locator(".name").inner_text()
    other.get_by_role("button").click()
    expect(chips(page)).to_have_text([STAR_WARS, title])


def test_a_known_user(movies: Service, open_page: OpenPage) -> None:
    page = open_page(movies)
    page.get_by_role("link", name="Known user").click()
    expect(page.locator("#user-title")).to_be_focused()
    expect(page.locator("#user-list")).to_contain_text("Pick a user")
    page.keyboard.press("Tab")
    page.keyboard.type("196")
    expect(page.get_by_role("option").first).to_have_text("196")
    page.keyboard.press("Enter")
    expect(page.locator("#user-list-title")).to_have_text("Recommended to user 196")
    expect(rows(page)).to_have_count(10)
    expect(page.locator(".reasons", has_text="Because they liked ").first).to_be_visible()
    past = page.locator("#past-items li").all_inner_texts()
    assert past
    assert not set(past) & set(titles(page))
    assert page.title() == "User 196 · purerec"
    page.goto(f"{movies.url}/#/user?id=405")
    expect(page.locator("#past-items li")).to_have_count(12)
    expect(page.locator("#user-list-title")).to_have_text("Recommended to user 405")
    expect(page.locator(".row .pill")).to_have_count(0)  # the lists of two people are not compared
    page.locator("#past-more").click()
    expect(page.locator("#past-items li").nth(12)).to_be_focused()
    expect(page.locator("#past-more")).to_be_hidden()
    page.goto(f"{movies.url}/#/user?id=nobody")
    expect(page.locator("#user-list")).to_have_text("No user “nobody” in the training data.")
    expect(page.locator("#past")).to_be_hidden()


def test_the_model_card(movies: Service, open_page: OpenPage) -> None:
    page = open_page(movies, "#/model")
    expect(page.locator("#model-title")).to_have_text("pure")
    card = page.locator("#model-card")
    expect(card).to_contain_text("943 users and 1,682 items (ml-100k)")
    expect(card.get_by_role("row")).to_have_count(9)  # P and NDCG at 3, 5 and 10, MAP, MRR, and the head
    expect(card.get_by_role("row").nth(1)).to_have_text(re.compile(r"P@3\s*0\.\d{4}"))
    curve = card.get_by_role("img", name=re.compile("^loss over 12 epochs")).locator("path.curve")
    assert len(re.findall("[ML]", curve.get_attribute("d") or "")) == 12
    expect(card).to_contain_text("pretrain_epochs")
    card.locator("summary").click()
    expect(card.get_by_role("img", name=re.compile("user_norm"))).to_be_visible()


def test_the_address_is_the_state(movies: Service, open_page: OpenPage) -> None:
    page = open_page(movies, "#/likes?item=50&item=181")
    expect(chips(page)).to_have_text([STAR_WARS, "Return of the Jedi (1983)"])
    expect(rows(page)).to_have_count(10)
    first = titles(page)
    rows(page).first.get_by_role("button", name=re.compile("^Like")).click()
    expect(chips(page)).to_have_count(3)
    page.go_back()
    expect(chips(page)).to_have_count(2)
    expect(page.locator(".view:not([hidden]) .row h3 > bdi")).to_have_text(first)
    page.get_by_role("button", name="Clear all").click()
    expect(page.locator("#liked")).to_be_hidden()
    page.go_back()
    page.reload()
    expect(page.locator(".view:not([hidden]) .row h3 > bdi")).to_have_text(first)
    page.goto(f"{movies.url}/#/nonsense?&&%ff=%")
    expect(page.locator("#likes-list-title")).to_have_text("Popular with everybody")


def test_unknown_items_are_told(movies: Service, open_page: OpenPage) -> None:
    page = open_page(movies, "#/likes?item=50&item=nope")
    expect(page.locator("#liked-unknown")).to_have_text("Not known to the model, and left out: nope.")
    expect(rows(page)).to_have_count(10)
    page.get_by_role("button", name="Remove nope").click()
    expect(page.locator("#liked-unknown")).to_be_hidden()
    page.goto(f"{movies.url}/#/likes?item=nope")
    expect(page.locator("#likes-list-note")).to_contain_text("knows none of these items")


# ---------------------------------------------------------------------- titles are text


def test_titles_are_shown_as_they_are_and_never_run(evil: Service, open_page: OpenPage) -> None:
    page = open_page(evil)
    expected = sorted(label or item for item, label in EVIL.items())
    expect(rows(page)).to_have_count(len(EVIL))
    assert sorted(titles(page)) == expected
    page.locator("#item-search").click()
    expect(page.get_by_role("option")).to_have_count(len(EVIL))
    assert sorted(page.locator("#item-options .name > bdi").all_inner_texts()) == expected
    page.locator("#item-search").fill("img src")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(chips(page)).to_have_text([EVIL["b1"]])
    expect(page.locator(".reasons", has_text=f"Because you liked {EVIL['b1']}").first).to_be_visible()
    for item in ("<svg onload=alert(5)>", "b/8?x=1#y%2F"):
        name = EVIL[item] or item
        row = rows(page).filter(has_text=name)
        row.get_by_role("button", name=f"More like {name}").click()
        expect(row.locator(".similar-head")).to_have_text(f"Most like {name}")
        expect(row.locator(".similar li").first).to_be_visible()
        row.get_by_role("button", name=f"Like {name}", exact=True).click()
        expect(chips(page).last).to_have_text(name)
    page.reload()
    expect(chips(page)).to_have_count(3)
    page.goto(f"{evil.url}/#/model")
    expect(page.locator("#model-card")).to_contain_text("(<b>evil</b>)")
    page.goto(f"{evil.url}/#/user?id=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    expect(page.locator("#user-list")).to_contain_text("“<img src=x onerror=alert(1)>”")
    assert page.locator("main img, main script, main svg[onload], main b, main i").count() == 0


def test_the_browser_itself_refuses_html_from_text(evil: Service, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(evil.url)
    refused = page.evaluate("() => { try { document.body.innerHTML = '<p>'; return false } catch { return true } }")
    page.close()
    assert refused


def test_no_way_from_text_to_html_in_the_sources() -> None:
    ways = re.compile(r"(inner|outer|Adjacent)HTML|document\.write|DOMParser|\beval\b|new Function|[^a-z]style=")
    folder = files("purerec.serving.http") / "page"
    sources = {file.name: file.read_text() for file in folder.iterdir() if file.name.endswith((".js", ".html"))}
    assert len(sources) > 5
    assert {name: ways.findall(text) for name, text in sources.items() if ways.search(text)} == {}
    assert not [name for name, text in sources.items() if re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)]
