"""Take the screenshot of the page that the README shows, docs/pictures/page.webp: `python docs/pictures.py`.

Needs Debian's chromium, and Playwright and Pillow from the extras `test` and `peers`.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

import purerec as pr

TARGET = Path(__file__).parent / "pictures" / "page.webp"
LIKED = ("Star Wars", "Fargo", "Toy Story (1995)")


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        split = pr.split(pr.load("ml-100k"))
        model = pr.PURE().fit(split.full_train, seed=0)
        folder = model.save(Path(place, "model"), metrics=pr.evaluate(model, split).metrics)
        command = [sys.executable, "-m", "purerec", "serve", str(folder), "--port", "0"]
        service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert service.stdout is not None
            taken = _taken(service.stdout.readline().removeprefix("serving ").strip())
        finally:
            service.terminate()
            service.wait(30)
    TARGET.parent.mkdir(exist_ok=True)
    Image.open(io.BytesIO(taken)).save(TARGET, quality=80, method=6)
    print(f"written: {TARGET.name}, {TARGET.stat().st_size:,} bytes")


def _taken(url: str) -> bytes:
    """The page of a person who likes three films."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 760}, device_scale_factor=1)
        page.goto(url)
        for title in LIKED:
            page.locator("#item-search").fill(title)
            page.get_by_role("option").first.click()
        page.locator("#likes-list-title", has_text="Recommended for you").wait_for()
        page.mouse.click(5, 5)
        page.wait_for_timeout(500)  # until the list has stopped moving
        taken = page.screenshot()
        browser.close()
    return taken


if __name__ == "__main__":
    main()
