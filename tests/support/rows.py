"""Many rows in one test: for checks that take less time than pytest needs to collect and report a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def for_each(rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Calls a test with each row, whose parts are its arguments if it is a tuple; a failure names its row."""
    listed = [row if isinstance(row, tuple) else (row,) for row in rows]

    def of_rows(test: Callable[..., None]) -> Callable[[], None]:
        def every() -> None:
            assert listed
            for row in listed:
                try:
                    test(*row)
                except Exception as error:
                    error.add_note("in the row of " + ", ".join(str(getattr(part, "name", part))[:80] for part in row))
                    raise

        every.__name__, every.__doc__ = test.__name__, test.__doc__
        return every

    return of_rows
