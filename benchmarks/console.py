"""What the console costs: the first paint of each page, and the rate of the data routes while a page watches them live.

Run it on a quiet machine: python -m benchmarks.console
"""

from __future__ import annotations

import shutil
import statistics
import sys
import time

import httpx
from playwright.sync_api import Browser, sync_playwright

from tests.serving import serving

PAGES = ("/", "/operators/REDUCE", "/try", "/live")
ROUNDS = 5
SECONDS = 4.0

REQUEST = {
    "operator": {
        "type": "REDUCE",
        "desc": {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]}, "Axes": [1]},
    },
    "inputs": {"InputTensor": {"data": [[1, 5, 2], [9, 0, 3]]}},
}
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"


def first_paint(browser: Browser, url: str) -> float:
    """Milliseconds until something is seen, with nothing cached; the median of some rounds."""
    found: list[float] = []
    for _ in range(ROUNDS):
        page = browser.new_page()
        page.goto(url)
        page.wait_for_timeout(500)
        found.append(page.evaluate(_PAINT))
        page.close()
    return statistics.median(found)


def rate(url: str) -> float:
    """Requests per second that one client gets."""
    with httpx.Client(base_url=url) as client:
        count, end = 0, time.monotonic() + SECONDS
        while time.monotonic() < end:
            client.post("/v1/execute", json=REQUEST)
            count += 1
        return count / SECONDS


def main() -> int:
    path = shutil.which("chromium")
    if path is None:
        sys.stderr.write("there is no chromium on the PATH\n")
        return 1
    with serving() as server, sync_playwright() as driver:
        assert server.url is not None
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for page in PAGES:
            print(f"first paint of {page}: {first_paint(browser, server.url + page):.0f} ms")
        ratios = []
        for _ in range(ROUNDS):
            alone = rate(server.url)
            watching = browser.new_page()
            watching.goto(f"{server.url}/live")
            watched = rate(server.url)
            watching.close()
            ratios.append(watched / alone)
        print(f"rate with a live page open, of that without: {statistics.median(ratios):.3f}")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
