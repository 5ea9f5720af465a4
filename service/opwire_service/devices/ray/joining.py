"""How a bridge becomes part of a cluster. Only a process that may end with the cluster does this."""

from __future__ import annotations

import ctypes
import json
import logging
import platform
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

import ray
from ray._raylet import GcsClient  # type: ignore[attr-defined]
from ray.exceptions import AuthenticationError

NAMESPACE = "opwire"
"""Of the actors: all servers of a cluster find them there."""

_PR_SET_PDEATHSIG = 1

REACHED_WITHIN = 5.0
LEAVES_WITHIN = 8.0


class NotJoined(Exception):
    """There is no cluster at the moment; the message says why."""


class Refused(NotJoined):
    """The cluster cannot be joined until somebody changes a version, or has a token for it."""


class BridgeLocation(NamedTuple):
    """Where a bridge is.

    Attributes:
        address: of the cluster.
        node: that it is attached to, by its id.
    """

    address: str
    node: str


@contextmanager
def joined(address: str, store_bytes: int, folder: str) -> Generator[BridgeLocation]:
    """Belongs to a cluster for as long as the context lasts.

    Args:
        address: ``auto`` is the cluster that this machine is a node of, ``local`` a new one with this machine alone;
            HOST:PORT has the head, and this machine becomes a node of it that offers nothing.
        store_bytes: of the object store of a node that is started.
        folder: for what Ray leaves on disk of such a node.

    Raises:
        NotJoined: it is not there, or does not take this process.
    """
    if address == "local":
        store = {"object_store_memory": store_bytes, "include_dashboard": False, "_temp_dir": folder}
        with _connected("local", **store) as place:
            yield place
    elif address == "auto":
        with _connected("auto") as place:
            yield place
    else:
        require_same(address)
        # Of several nodes of one machine Ray tells a program which is its own by their folders.
        with _node(address, folder, store_bytes), _connected(address, _temp_dir=folder) as place:
            yield place


@contextmanager
def _connected(address: str, **options: Any) -> Generator[BridgeLocation]:
    try:
        ray.init(address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR, **options)
    except RuntimeError as error:
        if "ersion mismatch" in str(error):
            raise Refused(" ".join(str(error).split())) from None
        raise NotJoined(_line(error)) from None
    except (ConnectionError, OSError, ValueError) as error:
        raise NotJoined(_line(error)) from None
    try:
        context = ray.get_runtime_context()
        yield BridgeLocation(context.gcs_address, context.get_node_id())
    finally:
        ray.shutdown()


@contextmanager
def _node(address: str, folder: str, store_bytes: int) -> Generator[None]:
    """Makes this machine a node that only sends and receives: to speak with a cluster, a process needs one."""
    command = [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block", f"--address={address}"),
        *(f"--temp-dir={folder}", "--num-cpus=0", "--num-gpus=0", f"--object-store-memory={store_bytes}"),
        "--dashboard-agent-listen-port=0",
    ]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=_end_with_parent
    )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(LEAVES_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()


def _end_with_parent() -> None:
    """Ends the process with the one that made it, however that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def require_same(address: str) -> None:
    """Asks the head at HOST:PORT for its versions.

    Raises:
        NotJoined: it does not answer.
        Refused: they are others than those of this process.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACHED_WITHIN).close()
    except OSError as error:
        raise NotJoined(f"no head answers at {address}: {error.strerror or error}") from None
    try:
        found = GcsClient(address=address).internal_kv_get(
            b"CLUSTER_METADATA", namespace=b"cluster", timeout=REACHED_WITHIN
        )
    except AuthenticationError:
        raise Refused(f"the cluster at {address} asks for a token: see RAY_AUTH_MODE and RAY_AUTH_TOKEN") from None
    except Exception as error:  # what Ray raises has no class in common
        raise NotJoined(f"no head of a Ray cluster answers at {address}: {_line(error)}") from None
    if found is not None:
        theirs = json.loads(found)
        compare(address, str(theirs.get("ray_version")), str(theirs.get("python_version")))


def compare(address: str, ray_version: str, python_version: str) -> None:
    """
    Raises:
        Refused: a cluster's version of Ray, or of Python but for the last number, is not that of this process.
    """
    ours = platform.python_version()
    if ray_version != ray.__version__ or python_version.split(".")[:2] != ours.split(".")[:2]:
        raise Refused(
            f"the cluster at {address} has Ray {ray_version} and Python {python_version}, this server Ray "
            f"{ray.__version__} and Python {ours}: install the same on both"
        )


def _line(error: Exception) -> str:
    """The first line of an error."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
