"""Work on ONNX models in requests ends once nobody waits for it."""

import asyncio
import threading
import time

import pytest

from opwire.errors import DeadlineExceededError
from opwire_service.engine.memory import Memory
from opwire_service.engine.request import Request
from opwire_service.offline import onnx_models


def test_the_thread_of_a_cancelled_request_ends():
    begun, ended = threading.Event(), threading.Event()

    def work(poll: onnx_models.Poll) -> None:
        begun.set()
        until = time.monotonic() + 30
        while time.monotonic() < until:
            try:
                poll()
            except DeadlineExceededError:
                ended.set()
                raise

    async def request() -> None:
        given = Request(Memory(1000, 1).open(), guard=asyncio.ensure_future)
        task = asyncio.ensure_future(onnx_models.in_thread(work, given))
        await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(ended.wait, 20)

    asyncio.run(request())
