"""The actor that has a device of a node: the same device as a server has alone, asked over Ray.

Actors outlive the server that made them, so that all servers of a cluster share them; one that no server asks for some
time ends itself.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
import ray

from opwire.check import Plan
from opwire.errors import OpwireError, to_problem
from opwire.tensor import Array

from ...execution import Stopped
from ...kernels.executable import EXECUTABLE
from ..base import Device
from .joining import NAMESPACE
from .messages import CallOutcome
from .packing import BlockLayout, allocate, load_plan

WORKING, ANSWERING = "working", "answering"
"""The groups of methods that run side by side: plans, and all that is over at once."""

LEASE = 60.0
"""Seconds without a server after which an actor ends."""

SERVER_SILENT = 20.0
"""Seconds without a sign of life after which the plans of a server are given up."""

PLANS = 1024
"""Plans that are kept as read: those used last."""

STOPPED = 4096
"""Calls that were given up before they began, of which the actor knows."""


def versions() -> dict[str, str]:
    """What must be the same on a server and on its nodes: results have the same bits then, and calls the same form."""
    return {"opwire": version("opwire"), "Python": ".".join(platform.python_version_tuple()[:2])}


def operators(device: Device) -> list[str] | None:
    """The operators of a device; None if they are all that there are: to list those takes longer than to load it."""
    return None if type(device).executes is Device.executes else list(filter(device.executes, EXECUTABLE))


class DeviceHost:
    """Has a device and runs the plans of all servers on it.

    Args:
        name: of the actor.
        target: module and class of the device.
        arguments: of its making.
    """

    def __init__(self, name: str, target: str, arguments: Mapping[str, Any]) -> None:
        module, _, attribute = target.partition(":")
        self._name = name
        self._device: Device = getattr(import_module(module), attribute)(**arguments)
        self._plans = lru_cache(PLANS)(load_plan)
        self._stopped: OrderedDict[str, None] = OrderedDict()
        self._servers: dict[str, float] = {}
        self._heard = time.monotonic()
        threading.Thread(target=self._end_alone, name="opwire-lease", daemon=True).start()

    @ray.method(concurrency_group=ANSWERING)
    def introduce(self) -> dict[str, Any]:
        """What it is: versions, places and description of the device, and its operators, see ``operators``."""
        self._heard = time.monotonic()
        described = {**self._device.describe(), "pid": os.getpid()}
        return {
            "versions": versions(),
            "places": self._device.places,
            "described": described,
            "operators": operators(self._device),
        }

    @ray.method(concurrency_group=ANSWERING)
    def beat(self, server: str) -> tuple[int, int, int, str | None]:
        """A sign of life of both sides. Returns what the device uses, and why it is of no use any more."""
        self._heard = self._servers[server] = time.monotonic()
        usage = self._device.usage()
        return usage.memory, usage.memory_limit, usage.kernels, self._device.broken

    @ray.method(concurrency_group=ANSWERING)
    def measure(self, payload: Array) -> int:
        """Nothing but the way here and back."""
        return payload.size

    @ray.method(concurrency_group=ANSWERING)
    def stop(self, call: str) -> None:
        """Nobody wants the answer of a call any more, which may not have begun."""
        self._stopped[call] = None
        while len(self._stopped) > STOPPED:
            self._stopped.popitem(last=False)

    @ray.method(concurrency_group=WORKING)
    def run(self, server: str, call: str, written: bytes, payload: Array) -> tuple[str, Any]:
        """Runs a plan.

        Args:
            server: that asks.
            call: by which it may be stopped.
            written: the plan.
            payload: its inputs.

        Returns:
            how it ended, with its outputs or the problem.
        """
        self._servers.setdefault(server, time.monotonic())
        try:
            return CallOutcome.DONE.value, self._run(self._plans(written), payload, server, call)
        except Stopped:
            return CallOutcome.STOPPED.value, None
        except OpwireError as error:
            return CallOutcome.FAILED.value, to_problem(error)
        except Exception as error:  # a defect: the server says so, and the actor goes on
            return CallOutcome.FAILED.value, f"{type(error).__name__}: {error}"
        finally:
            self._stopped.pop(call, None)

    def _run(self, plan: Plan, payload: Array, server: str, call: str) -> Array:
        def stop() -> bool:
            return call in self._stopped or time.monotonic() - self._servers[server] > SERVER_SILENT

        if stop():
            raise Stopped
        packing = BlockLayout.of(plan.outputs)
        memory = allocate(plan.outputs.values(), packing.size)
        inputs = BlockLayout.of(plan.inputs).views(plan.inputs, np.asarray(payload))
        with self._device.admit(plan):
            self._device.run(plan, inputs, packing.views(plan.outputs, memory), stop)
        return memory

    def _end_alone(self) -> None:
        while time.monotonic() - self._heard < LEASE:
            time.sleep(1.0)
            if self._device.broken is not None:
                os._exit(1)  # Ray starts it again, in a process that can use the card
        ray.kill(ray.get_actor(self._name, NAMESPACE))
