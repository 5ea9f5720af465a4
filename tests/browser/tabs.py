"""Browser tabs that record everything that goes wrong in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import quote, urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Request, Response, ViewportSize

WIDE = (1280, 800)
PHONE = (390, 844)
NARROW = (320, 700)

_LOADING = "Failed to load resource"
_BLANK = "about:blank"
_CLEAR_STORAGE = (
    "try { localStorage.clear(); sessionStorage.clear(); } catch {}"  # pages that failed to load have no storage
)


class Tab:
    """A page under observation.

    Attributes:
        page: The Playwright page.
        requests: The requests it made.
        problems: Errors, warnings, unexpected statuses, and requests to other hosts.
    """

    def __init__(self, page: Page, url: str, expected: Collection[int]) -> None:
        self.page = page
        self.requests: list[Request] = []
        self.problems: list[str] = []
        self._origin = urlsplit(url).netloc
        self._expected = expected
        self._handlers: dict[Any, Callable[[Any], None]] = {
            "console": self._on_console,
            "pageerror": self._on_error,
            "request": self._on_request,
            "response": self._on_response,
        }
        self.page.set_default_timeout(15_000)
        for event, handler in self._handlers.items():
            self.page.on(event, handler)

    @property
    def context(self) -> BrowserContext:
        return self.page.context

    def leave(self) -> None:
        """Stops observing the page and clears its state for the next test."""
        for event, handler in self._handlers.items():
            self.page.remove_listener(event, handler)
        self.page.evaluate(_CLEAR_STORAGE)
        self.context.clear_cookies()
        self.page.goto(_BLANK)

    def _on_error(self, error: Error) -> None:
        self.problems.append(f"error: {error}")

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
    """Opens tabs and collects the problems in them."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self._open: list[Tab] = []
        self._kept: Page | None = None
        self._lent: Tab | None = None

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
        """Opens an address in a tab with its own context.

        Args:
            expected: Statuses of 400 and above that are not problems; 0 stands for a lost connection.
            before: A script to run before those of the page.
            prepare: Called with the page before it navigates.
            options: Options of the browser context.
        """
        page = self._new_page(size, **options)
        if before is not None:
            page.context.add_init_script(before)
        tab = Tab(page, url, expected)
        self._open.append(tab)
        if prepare is not None:
            prepare(page)
        page.goto(url)
        return tab

    def open(self, url: str, size: tuple[int, int] = WIDE, *, expected: Collection[int] = (), **options: Any) -> Page:
        """Opens an address, reusing the page of the previous test unless options are given.

        A new page costs about twice the CPU time: it starts a process and compiles the scripts again.
        """
        if options or self._lent is not None:
            return self.tab(url, size, expected=expected, **options).page
        if self._kept is None:
            self._kept = self._new_page(size)
        self._kept.set_viewport_size(_viewport(size))
        self._lent = Tab(self._kept, url, expected)
        self._kept.goto(url)
        return self._kept

    def _new_page(self, size: tuple[int, int], **options: Any) -> Page:
        usual: dict[str, Any] = {"viewport": _viewport(size), "reduced_motion": "reduce", "locale": "en-US"}
        return self.browser.new_context(**{**usual, **options}).new_page()

    def close_all(self) -> list[str]:
        """Closes all tabs and returns the problems found in them."""
        lent, self._lent = self._lent, None
        opened, self._open = self._open, []
        problems = [problem for tab in (*opened, *([lent] if lent else [])) for problem in tab.problems]
        for tab in opened:
            tab.context.close()
        if lent is not None:
            lent.leave()
        return problems


def _viewport(size: tuple[int, int]) -> ViewportSize:
    return ViewportSize(width=size[0], height=size[1])


def link(url: str, **state: object) -> str:
    """Returns the address of the Try page with a state."""
    return f"{url}/try#json={quote(json.dumps(state))}"
