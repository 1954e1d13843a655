"""The panel next to the list, what is shown about items, and the API page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import polars as pl
import pytest

from browser.conftest import Service, assert_axe_finds_nothing, expect, rows, titles

if TYPE_CHECKING:
    from playwright.sync_api import Page

    OpenPage = Callable[..., Page]

DOT = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
N = 30


@pytest.fixture(scope="module")
def shop(serve: Callable[..., Service], tmp_path_factory: pytest.TempPathFactory) -> Service:
    """Thirty items without titles, with columns and images, and a new one."""
    import purerec as pr

    world = pr.make_world(users=80, items=N, prior=0.3, seed=0).observed
    sources = (DOT, "/static/favicon.svg", "https://elsewhere.example/x.png", "/gone.png")
    frame = pl.DataFrame(
        {
            "item": range(N + 1),
            "kind": [("Book", "Film|Series")[n % 2] for n in range(N + 1)],
            "year": [1990 + n for n in range(N + 1)],
            "net_price": [n + 0.5 for n in range(N + 1)],
            "in_stock": [n % 5 > 0 for n in range(N + 1)],
            "image": [sources[n % 4] for n in range(N + 1)],
        }
    )
    model = pr.ItemKNN().fit(world, seed=0).set_items(pr.read_items(frame))
    return serve(model.save(tmp_path_factory.mktemp("shop") / "model"))


def numbers(page: Page) -> list[int]:
    return [int(text) for text in titles(page)]


def test_filters_narrow_the_list_and_live_in_the_address(shop: Service, open_page: OpenPage) -> None:
    page = open_page(shop, "#/likes?item=3")
    expect(page.locator("label[for=item-search]")).to_have_text("Find by id")
    expect(rows(page)).to_have_count(10)
    before = numbers(page)
    panel = page.locator("#likes-rules")
    panel.get_by_label("Kind").select_option("Book")
    expect(page.locator(".facts", has_text="Film")).to_have_count(0)
    assert all(n % 2 == 0 for n in numbers(page))
    assert "where=kind%3DBook" in page.url
    panel.get_by_label("Year from").fill("2005")
    panel.get_by_label("Year from").press("Enter")
    panel.get_by_label("In stock").check()
    expect(panel.get_by_label("In stock")).to_be_checked()
    expect(panel.get_by_label("In stock")).to_be_focused()
    expect(rows(page)).to_have_count(len([n for n in range(16, N, 2) if n % 5]))
    assert all(n >= 15 and n % 5 for n in numbers(page))
    page.go_back()
    page.go_back()
    page.go_back()
    expect(rows(page)).to_have_count(10)
    assert numbers(page) == before
    page.goto(f"{shop.url}/#/likes?item=3&where=year%3C1992&where=nope%3D1")
    expect(page.locator("#likes-list")).to_contain_text("no column 'nope'")
    page.get_by_role("button", name="Remove nope=1").click()
    expect(rows(page)).to_have_count(2)
    page.get_by_role("button", name="Reset filters").click()
    expect(rows(page)).to_have_count(10)
    assert "where" not in page.url


def test_variety_popularity_and_new_items(shop: Service, open_page: OpenPage) -> None:
    page = open_page(shop, "#/user?id=5")
    expect(rows(page)).to_have_count(10)
    before = numbers(page)
    panel = page.locator("#user-rules")
    panel.get_by_label("Popularity").focus()
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    expect(panel.get_by_label("Popularity")).to_have_value("90")
    expect(page.locator('[aria-busy="true"]')).to_have_count(0)
    assert numbers(page) != before
    panel.get_by_label("Also new items").check()
    new = rows(page).filter(has_text="New, similar to their likes")
    expect(new).to_have_count(1)
    expect(new.locator("h3")).to_contain_text(str(N))
    expect(new.get_by_role("button")).to_have_count(0)


def test_images_of_this_server_only(shop: Service, open_page: OpenPage) -> None:
    page = open_page(shop)
    expect(rows(page)).to_have_count(10)
    for row in rows(page).all():
        number = int(row.locator("h3").inner_text().split()[0])
        expect(row.locator("img.picture")).to_have_count(int(number % 4 < 2))  # neither from elsewhere nor broken
        expect(row.locator(".picture")).to_have_count(1)
        expect(row.locator(".facts")).to_contain_text(f" · {1990 + number} · Net price {number + 0.5}")


def test_the_page_of_the_api(shop: Service, open_page: OpenPage) -> None:
    page = open_page(shop, "docs")
    expect(page.locator(".operation")).to_have_count(12)
    first = page.locator("#post-v1-recommend")
    expect(first.locator("h3")).to_have_text("POST/v1/recommend")
    expect(first).to_contain_text("diversity")
    expect(first).to_contain_text("number from 0 to 1; 0 if not given")
    expect(first).to_contain_text(f"curl '{shop.url}/v1/recommend' -d '")
    page.get_by_role("link", name="For you").click()
    expect(rows(page)).to_have_count(10)
    page.get_by_role("link", name="API").first.click()
    expect(page.locator("#get-v1-model")).to_be_visible()


@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing(shop: Service, open_page: OpenPage, width: int) -> None:
    page = open_page(shop, width=width, reduced_motion="reduce", bypass_csp=True)
    for place in ("#/likes?item=3&where=kind%3DBook&where=year%3E1990&diversity=20&fresh=1", "#/user?id=5", "docs"):
        page.goto(f"{shop.url}/{place}")
        expect(page.locator(".view:not([hidden]) .row, .operation").first).to_be_visible()
        if width == 390 and place.startswith("#/likes"):
            page.locator("#likes-rules summary").first.click()
        expect(page.locator('[aria-busy="true"]')).to_have_count(0)
        assert_axe_finds_nothing(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
