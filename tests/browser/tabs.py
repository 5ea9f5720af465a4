"""Tabs of a browser in which nothing may go wrong unnoticed."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import quote, urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response, ViewportSize

WIDE = (1280, 800)
PHONE = (390, 844)
NARROW = (320, 700)

_LOADING = "Failed to load resource"


class Tab:
    """A page in a context of its own.

    Attributes:
        page: of Playwright.
        requests: the addresses that it asked for.
    """

    def __init__(self, context: BrowserContext, url: str, expected: Collection[int]) -> None:
        self.context = context
        self.page: Page = context.new_page()
        self.requests: list[Request] = []
        self.problems: list[str] = []
        self._origin = urlsplit(url).netloc
        self._expected = expected
        self.page.set_default_timeout(15_000)
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("request", self._on_request)
        self.page.on("response", self._on_response)

    def _on_console(self, message: ConsoleMessage) -> None:
        is_expected = message.text.startswith(_LOADING) and self._expected
        if message.type in ("error", "warning") and not is_expected:
            self.problems.append(f"{message.type}: {message.text}")

    def _on_request(self, request: Request) -> None:
        self.requests.append(request)
        parts = urlsplit(request.url)
        if parts.scheme not in ("blob", "data") and parts.netloc != self._origin:
            self.problems.append(f"a request to elsewhere: {request.url}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self._expected:
            self.problems.append(f"{response.status} for {response.url}")


class Tabs:
    """Opens tabs, and knows what went wrong in them."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self._open: list[Tab] = []

    def tab(
        self,
        url: str,
        size: tuple[int, int] = WIDE,
        *,
        expected: Collection[int] = (),
        before: str | None = None,
        prepare: Callable[[Page], object] | None = None,
        **options: Any,
    ) -> Tab:
        """A tab that shows an address.

        Args:
            expected: statuses of 400 and above that are no mistake; 0 is a lost connection.
            before: a script that runs before those of the page.
            prepare: is called with the page before it has an address.
            options: of the context.
        """
        viewport = ViewportSize(width=size[0], height=size[1])
        context = self.browser.new_context(viewport=viewport, reduced_motion="reduce", **options)
        if before is not None:
            context.add_init_script(before)
        tab = Tab(context, url, expected)
        self._open.append(tab)
        if prepare is not None:
            prepare(tab.page)
        tab.page.goto(url)
        return tab

    def open(self, url: str, size: tuple[int, int] = WIDE, **options: Any) -> Page:
        """The page of a new tab."""
        return self.tab(url, size, **options).page

    def close_all(self) -> list[str]:
        """Closes all tabs. Returns what went wrong in them."""
        problems = [problem for tab in self._open for problem in tab.problems]
        for tab in self._open:
            tab.context.close()
        self._open = []
        return problems


def link(url: str, **state: object) -> str:
    """An address of the page Try with a state."""
    return f"{url}/try#json={quote(json.dumps(state))}"
