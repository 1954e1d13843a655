"""A browser, fitted models and running services for the tests of the page.

The page is tested as people get it: `purerec serve` in its own process, Debian's Chromium in front of it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import pytest

from conftest import lacking, need
from purerec.data.interactions import Interactions

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

TIMEOUT_MS = 15_000
EVIL = {
    "b1": "<img src=x onerror=alert(1)>",
    "b2": "<script>alert(2)</script> & <b>bold</b>",
    "b3": "&amp; &lt;i&gt; \"double\" 'single' `tick` ${alert(3)}",
    "b4": "\u202eright to left\u202c and \u05d0\u05d1\u05d2",
    "b5": "javascript:alert(4)",
    "b6": "Averylongtitlewithoutanyspaceinit" * 8,
    "<svg onload=alert(5)>": "",
    "b/8?x=1#y%2F": "An id with / ? # %",
}


class Service:
    """`purerec serve` on a port that it keeps across restarts."""

    def __init__(self, folder: Path, *, token: str | None = None) -> None:
        self.folder, self.token = folder, token
        self.process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self) -> Service:
        environment = {name: value for name, value in os.environ.items() if name != "PUREREC_TOKEN"}
        if self.token is not None:
            environment["PUREREC_TOKEN"] = self.token
        command = [sys.executable, "-m", "purerec.cli", "serve", str(self.folder), "--port", str(self.port)]
        self.process = subprocess.Popen(
            [*command, "--access-log", "off"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 60
        while time.monotonic() < until and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=5):
                    return self
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise AssertionError(f"the service did not start (exit code {self.process.poll()})")

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)
            self.process = None


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    need("playwright")
    path = shutil.which("chromium")
    if path is None:
        lacking("Debian's chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[..., Service]]:
    """Starts a service on a folder; all end with the session."""
    need("fastapi")
    need("uvicorn")
    started: list[Service] = []

    def start(folder: Path, **settings: str) -> Service:
        started.append(Service(folder, **settings))
        return started[-1].start()

    yield start
    for service in started:
        service.stop(signal.SIGTERM)


@pytest.fixture(scope="session")
def movies_folder(ml_100k: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PURE on ML-100k: a few epochs, which is enough to recommend films, with curve and metrics."""
    import purerec as pr

    split = pr.split(ml_100k, how="official")
    model = pr.PURE(epochs=12, pretrain_epochs=8).fit(split.full_train, seed=0)
    return model.save(tmp_path_factory.mktemp("movies") / "model", metrics=pr.evaluate(model, split).metrics)


@pytest.fixture(scope="session")
def movies(serve: Callable[..., Service], movies_folder: Path) -> Service:
    return serve(movies_folder)


def small_log() -> Interactions:
    """Twelve people, eight items with titles that try to be more than text."""
    pairs = [(f"u{u}", item) for u in range(12) for n, item in enumerate(EVIL) if (u * 3 + n) % 4 != 0]
    log = Interactions.from_columns([u for u, _ in pairs], [i for _, i in pairs], name="<b>evil</b>")
    return log.with_labels({item: label for item, label in EVIL.items() if label})


@pytest.fixture(scope="session")
def evil(serve: Callable[..., Service], tmp_path_factory: pytest.TempPathFactory) -> Service:
    from purerec.models.registry import make_model

    return serve(make_model("itemknn").fit(small_log()).save(tmp_path_factory.mktemp("evil") / "model"))


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page; afterwards, checks that it ran no foreign code, contacted nobody else and stored nothing."""
    opened: list[tuple[Page, list[str], str]] = []

    def new(service: Service, fragment: str = "", *, width: int = 1280, height: int = 900, **options: object) -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        wrong: list[str] = []
        page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("pageerror", lambda error: wrong.append(f"script error: {error}"))
        page.on("console", lambda message: wrong.append(message.text) if is_wrong(message.text) else None)
        host = urlsplit(service.url).netloc
        page.on("request", lambda r: wrong.append(f"asked {r.url}") if urlsplit(r.url).netloc != host else None)
        opened.append((page, wrong, service.url))
        page.goto(f"{service.url}/{fragment}")
        return page

    yield new
    for page, wrong, _ in opened:
        stored = page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]")
        page.context.close()
        assert wrong == []
        assert stored == [0, 0, ""]


def is_wrong(message: str) -> bool:
    """Whether the browser's console reports more than an answer that was not 200 or did not come."""
    return "Content Security Policy" in message or "Trusted" in message or "Uncaught" in message


# ---------------------------------------------------------------------- looking at the page


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect as expect_

    return expect_(locator)


SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def assert_axe_finds_nothing(page: Page) -> None:
    """Check light and dark on the same page: loading it takes as long as the check."""
    need("axe_playwright_python")
    from axe_playwright_python.sync_playwright import Axe

    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page)
        assert found.violations_count == 0, f"{page.url}, {scheme}\n{found.generate_report()}"


def rows(page: Page) -> Locator:
    return page.locator(".view:not([hidden]) .row")


def titles(page: Page) -> list[str]:
    return page.locator(".view:not([hidden]) .row h3 > bdi").all_inner_texts()


def chips(page: Page) -> Locator:
    return page.locator("#liked-chips bdi")
