"""Helpers that wait for a dispatcher to reach a state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from opwire_service.engine.dispatcher import Dispatcher

IN_TIME = 30.0
"""Timeout in seconds, generous enough for a busy machine."""


async def until(condition: Callable[[], bool], every: float = 0.001) -> None:
    async with asyncio.timeout(IN_TIME):
        while True:
            if condition():
                return
            await asyncio.sleep(every)


async def until_schedule_is(made: Dispatcher, state: str) -> None:
    await until(lambda: repr(made.schedule) == f"<Schedule {state}>")
