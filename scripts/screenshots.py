"""Takes screenshots of the console, from a local server and fixed inputs, and draws its icon as a favicon."""

from __future__ import annotations

import json
import shutil
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests.browser.tabs import PHONE, WIDE, link
from tests.support.http.serving import serving

_ROOT = Path(__file__).parents[1]

FOLDER = _ROOT / "docs" / "pictures"
_CONSOLE = _ROOT / "service" / "opwire_service" / "console"

_DESC = {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]}, "Axes": [1, 1]}
_BAD = """{
  "type": "REDUCE", // comments are allowed
  "desc": {
    "Function": "SUM",
    "InputTensor": { "DataType": "FLOAT32", "Sizes": [2, 3] },
    "Axes": [1, 1],
  }
}"""
_POOLING = """{
  "type": "MAX_POOLING2",
  "desc": {
    "InputTensor": { "DataType": "FLOAT32", "Sizes": [1, 1, 64, 96] },
    "Strides": [2, 2],
    "WindowSize": [3, 3],
    "StartPadding": [1, 1],
    "EndPadding": [1, 1],
    "Dilations": [1, 1]
  }
}"""
_NUMBERS = {"InputTensor": {"kind": "numbers", "text": "[[1, 5, 2], [9, 0, 3]]"}}
_RANDOM = {"InputTensor": {"kind": "random", "of": "normal", "seed": 7, "low": 0, "high": 1}}


def main() -> int:
    path = shutil.which("chromium")
    if path is None:
        sys.stderr.write("chromium is not on the PATH\n")
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    with serving() as server, sync_playwright() as driver:
        assert server.url is not None
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        (_CONSOLE / "favicon.ico").write_bytes(favicon(browser, (_CONSOLE / "icon.svg").read_text(encoding="utf-8")))
        take(browser, server.url, FOLDER)
        browser.close()
    return 0


def favicon(browser: Browser, icon: str) -> bytes:
    """Draws an icon of 32 by 32 pixels as a file for browsers that take no SVG."""
    page = browser.new_page(viewport=ViewportSize(width=32, height=32))
    page.set_content(f"<body style='margin: 0; background: none'>{icon}</body>")
    png = page.screenshot(omit_background=True)
    page.close()
    # The header of an ICO file with one image: its size, its colors, and where its bytes are.
    return struct.pack("<3H4B2H2I", 0, 1, 1, 32, 32, 0, 0, 1, 32, len(png), 22) + png


def _open(browser: Browser, url: str, size: tuple[int, int] = WIDE, *, dark: bool = False) -> Page:
    viewport = ViewportSize(width=size[0], height=size[1])
    page = browser.new_page(viewport=viewport, color_scheme="dark" if dark else "light", reduced_motion="reduce")
    page.goto(url)
    return page


def take(browser: Browser, url: str, folder: Path) -> None:
    """Takes all screenshots.

    Args:
        browser: browser to use.
        url: address of the server.
        folder: where to save ``console-NAME.png``.
    """

    def save(page: Page, name: str) -> None:
        page.wait_for_timeout(500)
        page.screenshot(path=folder / f"console-{name}.png")
        page.close()

    page = _open(browser, f"{url}/")
    page.locator(".matrix").wait_for()
    save(page, "start")
    explorer = f"{url}/#q=pool&type=FLOAT16&open=MAX_POOLING2&band=1"
    for name, dark in (("explorer", False), ("dark", True)):
        page = _open(browser, explorer, dark=dark)
        page.locator(".detail").wait_for()
        save(page, name)
    page = _open(browser, f"{url}/operators/REDUCE")
    page.locator("#examples").wait_for()
    save(page, "operator")
    page = _open(browser, link(url, text=_BAD, level="2_1", inputs=_NUMBERS))
    page.locator(".violations li").first.wait_for()
    save(page, "violations")
    save(_compare(browser, url), "compare")
    save(_pooled(browser, url), "try")  # its kernel is compiled by now
    save(_graph(browser, url), "graph")
    save(_model(browser, url), "model")
    page = _open(browser, link(url, text=_BAD, level="2_1", inputs=_NUMBERS), PHONE)
    page.locator(".violations li").first.wait_for()
    save(page, "phone")
    with _loaded(url):
        page = _open(browser, f"{url}/live")
        page.locator(".figures").wait_for()
        time.sleep(15)  # enough history for the charts
        save(page, "live")


def _pooled(browser: Browser, url: str) -> Page:
    page = _open(browser, link(url, text=_POOLING, inputs=_RANDOM))
    page.locator(".passes").wait_for()
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="heat map").first.click()
    page.locator(".output").first.scroll_into_view_if_needed()
    page.mouse.wheel(0, 500)
    return page


def _compare(browser: Browser, url: str) -> Page:
    page = _open(browser, link(url, text=_POOLING, inputs=_RANDOM))
    page.locator(".passes").wait_for()
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="compare").first.click()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "backend.npy"
        with page.expect_download() as download:
            page.get_by_role("button", name="save .npy").first.click()
        array = np.load(download.value.path())
        array[..., 3:12, 20:40] *= np.linspace(1, 1 + 3e-6, 20, dtype=np.float32)
        np.save(file, array)
        page.get_by_label("Expected OutputTensor").first.set_input_files(file)
        page.get_by_text("differs from").wait_for()
    page.mouse.wheel(0, 700)
    return page


def _graph(browser: Browser, url: str) -> Page:
    """Opens a graph, selects a node and shows its output."""
    page = _open(browser, link(url, operator="GRAPH", inputs={"image": {"kind": "ramp", "start": 0, "step": 1}}))
    page.locator(".passes").wait_for()
    page.locator("g.is-operator").nth(1).click()
    page.get_by_label("show OutputTensor").check()
    page.locator(".output").first.wait_for()
    page.locator(".graph").scroll_into_view_if_needed()
    page.evaluate("document.querySelector('.graph').scrollIntoView()")
    return page


def _model(browser: Browser, url: str) -> Page:
    """Opens an ONNX model at a level at which a node fails."""
    page = _open(browser, f"{url}/try")
    page.locator("input[accept='.onnx']").set_input_files(_ROOT / "examples" / "upscale.onnx")
    page.get_by_label("batch").wait_for()
    page.get_by_role("button", name="Check").click()
    page.get_by_role("radio", name="2_0").click()
    page.locator("g.box.bad").wait_for()
    return page


@contextmanager
def _loaded(url: str) -> Generator[None]:
    """Sends requests in the background."""
    stop = threading.Event()
    thread = threading.Thread(target=_load, args=(url, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _load(url: str, stop: threading.Event) -> None:
    good = {**_DESC, "Axes": [1]}
    with httpx.Client(base_url=url) as client:
        for i in range(10_000):
            if stop.is_set():
                return
            desc = _DESC if i % 9 == 0 else good
            inputs = {"InputTensor": {"data": [[1, 5, 2], [9, 0, 3]]}}
            body = {"operator": {"type": "REDUCE", "desc": desc}, "inputs": inputs}
            client.post("/v1/execute", content=json.dumps(body), headers={"Content-Type": "application/json"})
            time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
