"""How soon a joining node takes work.

The new node gets a core of its own, as a new machine would; everything else uses the remaining cores.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import numpy as np
from ray._raylet import GcsClient  # type: ignore[attr-defined]

from opwire.client import Client
from opwire_service.settings import Settings

from .scaling import Request, asked, await_devices, served
from .simulated import Simulated, simulated, until

WITHIN = 5.0
"""Maximum seconds after the head knows the node."""

JOINS = 4
CLIENTS = 4


def _request() -> Request:
    """Returns sums over 300 KB, which pass through object stores."""
    tensor = {"DataType": "FLOAT32", "Sizes": [256, 300]}
    desc = {"Function": "SUM", "InputTensor": tensor, "Axes": [1]}
    return {"type": "REDUCE", "desc": desc}, {"InputTensor": np.ones((256, 300), "f4")}


def measure_joins() -> bool:
    """Prints how soon nodes take work, on an idle cluster and while clients use another node.

    Returns whether that is soon enough.
    """
    cores = os.sched_getaffinity(0)
    own = {max(cores)}
    os.sched_setaffinity(0, cores - own or own)
    try:
        with simulated(1) as cluster, served(Settings(ray=cluster.address)) as url:
            await_devices(url, 1)
            kept = [_measure(cluster, url, own, clients) for clients in (0, CLIENTS)]
            return all(kept)
    finally:
        os.sched_setaffinity(0, cores)


def _measure(cluster: Simulated, url: str, own: set[int], clients: int) -> bool:
    with ExitStack() as stack:
        if clients:
            stack.enter_context(asked(url, _request(), "node0/cpu", clients))
            time.sleep(2.0)
        taken = [_join(cluster, url, own) for _ in range(JOINS)]
    kept = max(taken) <= WITHIN
    listed = ", ".join(f"{each:.2f}" for each in taken)
    print(f"{clients} clients: {listed} s until a node takes work; bound {WITHIN} s: {'kept' if kept else 'MISSED'}")
    return kept


def _join(cluster: Simulated, url: str, own: set[int]) -> float:
    """Returns the seconds from when the head knows a node until the node has answered a request."""
    name = f"node{len(cluster.ids)}"
    with ThreadPoolExecutor(1) as threads:
        taken = threads.submit(_await_work, cluster.address, url, name)
        others = os.sched_getaffinity(0)
        os.sched_setaffinity(0, own)  # inherited by the processes this thread starts
        cluster.add(1)
        os.sched_setaffinity(0, others)
    cluster.remove()
    return taken.result()


def _await_work(address: str, url: str, name: str) -> float:
    head = GcsClient(address=address)
    with httpx.Client(base_url=url) as looking, Client(url) as client:
        until(lambda: any(node.node_name == name and node.state == 0 for node in head.get_all_node_info().values()))
        began = time.monotonic()
        until(lambda: any(each["name"] == f"{name}/cpu" for each in looking.get("/v1/server").json()["devices"]))
        client.execute(*_request(), device=f"{name}/cpu")
        return time.monotonic() - began
