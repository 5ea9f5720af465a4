"""The actor that runs a device on a node, for servers to call over Ray.

Actors outlive the server that created them, so that all servers of a cluster share them. An actor that no server has
contacted for some time ends itself.
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
"""Concurrency groups of methods: running plans, and everything that returns immediately."""

LEASE = 60.0
"""Time without contact to any server after which an actor ends, in seconds."""

SERVER_SILENT = 20.0
"""Time without a heartbeat after which the plans of a server are cancelled, in seconds."""

PLANS = 1024
"""Size of the LRU cache of deserialized plans."""

STOPPED = 4096
"""Maximum number of cancelled calls that are remembered before they start."""


def versions() -> dict[str, str]:
    """Returns the versions that must match on a server and its nodes, for identical results and compatible calls."""
    return {"opwire": version("opwire"), "Python": ".".join(platform.python_version_tuple()[:2])}


def operators(device: Device) -> list[str] | None:
    """Returns the operators of a device, or None for all operators, as listing them takes longer than loading one."""
    return None if type(device).executes is Device.executes else list(filter(device.executes, EXECUTABLE))


class DeviceHost:
    """Runs the plans of all servers on one device.

    Args:
        name: name of the actor.
        target: module and class of the device.
        arguments: keyword arguments of its constructor.
    """

    def __init__(self, name: str, target: str, arguments: Mapping[str, Any]) -> None:
        module, _, attribute = target.partition(":")
        self._name = name
        self._device: Device = getattr(import_module(module), attribute)(**arguments)
        self._plans = lru_cache(PLANS)(load_plan)
        self._stopped: OrderedDict[str, None] = OrderedDict()
        self._servers: dict[str, float] = {}
        self._heard = time.monotonic()
        threading.Thread(target=self._end_when_idle, name="opwire-lease", daemon=True).start()

    @ray.method(concurrency_group=ANSWERING)
    def introduce(self) -> dict[str, Any]:
        """Returns the versions, and the places, description and operators of the device; see ``operators``."""
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
        """Exchanges a heartbeat. Returns the usage of the device, and why it has failed for good, if it has."""
        self._heard = self._servers[server] = time.monotonic()
        usage = self._device.usage()
        return usage.memory, usage.memory_limit, usage.kernels, self._device.broken

    @ray.method(concurrency_group=ANSWERING)
    def measure(self, payload: Array) -> int:
        """Does nothing, to measure the transport."""
        return payload.size

    @ray.method(concurrency_group=ANSWERING)
    def stop(self, call: str) -> None:
        """Cancels a call, which may not have started yet."""
        self._stopped[call] = None
        while len(self._stopped) > STOPPED:
            self._stopped.popitem(last=False)

    @ray.method(concurrency_group=WORKING)
    def run(self, server: str, call: str, written: bytes, payload: Array) -> tuple[str, Any]:
        """Runs a plan.

        Args:
            server: ID of the calling server.
            call: ID of the call, for ``stop``.
            written: the serialized plan.
            payload: its inputs.

        Returns:
            The outcome, with the outputs or the problem.
        """
        self._servers.setdefault(server, time.monotonic())
        try:
            return CallOutcome.DONE.value, self._run(self._plans(written), payload, server, call)
        except Stopped:
            return CallOutcome.STOPPED.value, None
        except OpwireError as error:
            return CallOutcome.FAILED.value, to_problem(error)
        except Exception as error:  # a bug: reported to the server, while the actor continues
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

    def _end_when_idle(self) -> None:
        while time.monotonic() - self._heard < LEASE:
            time.sleep(1.0)
            if self._device.broken is not None:
                os._exit(1)  # Ray restarts the actor in a new process, which can use the card again
        ray.kill(ray.get_actor(self._name, NAMESPACE))
