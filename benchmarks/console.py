"""Measures the console: page load times, and its effect on the throughput of the data routes.

Run it on a quiet machine: python -m benchmarks.console
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import httpx
from playwright.sync_api import Browser, sync_playwright

from tests.support.http.processes import Served, process

PAGES = {
    "/": ".matrix tbody tr:nth-child(177)",
    "/operators/REDUCE": "#examples",
    "/try": ".passes",
    "/live": ".figures",
}
"""Pages, each with a selector for what is shown last."""

ROUNDS = 7
REQUESTS = 300

REQUEST = {
    "operator": {
        "type": "REDUCE",
        "desc": {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]}, "Axes": [1]},
    },
    "inputs": {"InputTensor": {"data": [[1, 5, 2], [9, 0, 3]]}},
}
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"


def first_view(browser: Browser, url: str, last: str) -> tuple[float, float]:
    """Returns the milliseconds until first paint and until the page is complete, uncached; the best of some rounds."""
    found: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        page.goto(url)
        page.locator(last).first.wait_for()
        whole = page.evaluate("performance.now()")
        found.append((page.evaluate(_PAINT), whole))
        context.close()
    return min(paint for paint, _ in found), min(whole for _, whole in found)


def cost(server: Served) -> tuple[float, float]:
    """Returns the seconds that a client waits for some requests, and the CPU seconds that the server spends on them."""
    with httpx.Client(base_url=server.url) as client:
        client.post("/v1/execute", json=REQUEST)
        spent, begun = _processor_seconds(server), time.monotonic()
        for _ in range(REQUESTS):
            client.post("/v1/execute", json=REQUEST)
        return time.monotonic() - begun, _processor_seconds(server) - spent


def _processor_seconds(server: Served) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def compare(what: str, one: Served, other: Served) -> None:
    """Prints the best throughput of two servers, measured in turns, and their CPU time per request."""
    found: dict[str, list[tuple[float, float]]] = {one.url: [], other.url: []}
    for i in range(2 * ROUNDS):
        for server in (one, other) if i % 2 else (other, one):
            found[server.url].append(cost(server))
    waited, spent = zip(*(map(min, zip(*found[server.url], strict=True)) for server in (one, other)), strict=True)
    rates = [REQUESTS / each for each in waited]
    print(f"{what}: {rates[0]:.0f} requests/s vs. {rates[1]:.0f}, ratio {rates[0] / rates[1]:.3f};", end=" ")
    each = [seconds / REQUESTS * 1e6 for seconds in spent]
    print(f"{each[0]:.0f} us of CPU per request vs. {each[1]:.0f}, ratio {each[1] / each[0]:.3f}")


def main() -> int:
    path = shutil.which("chromium")
    if path is None:
        sys.stderr.write("chromium is not on the PATH\n")
        return 1
    print(f"machine load: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with process("--console") as having, process("--no-console") as lacking, sync_playwright() as driver:
        compare("with and without the console", having, lacking)
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for page, last in PAGES.items():
            paint, whole = first_view(browser, having.url + page, last)
            print(f"{page}: first paint after {paint:.0f} ms, complete after {whole:.0f} ms")
        watching = browser.new_page()
        watching.goto(f"{having.url}/live")
        compare("with a live page open, and without the console", having, lacking)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
