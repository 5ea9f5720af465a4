"""Waiting for a dispatcher to come to a state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from opwire_service.engine.dispatcher import Dispatcher

IN_TIME = 30.0
"""Seconds; more than a machine with other work needs."""


async def until(condition: Callable[[], bool], every: float = 0.001) -> None:
    async with asyncio.timeout(IN_TIME):
        while True:
            if condition():
                return
            await asyncio.sleep(every)


async def until_schedule_is(made: Dispatcher, state: str) -> None:
    await until(lambda: repr(made.schedule) == f"<Schedule {state}>")
