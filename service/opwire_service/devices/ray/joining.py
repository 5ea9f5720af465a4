"""Joining a cluster. Only for processes that may be terminated along with it, such as a bridge."""

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
"""Ray namespace of the actors, shared by all servers of a cluster."""

_PR_SET_PDEATHSIG = 1

REACHED_WITHIN = 5.0
LEAVES_WITHIN = 8.0


class NotJoined(Exception):
    """The cluster is not available at the moment; the message says why."""


class Refused(NotJoined):
    """The cluster cannot be joined until somebody changes a version or provides a token."""


class BridgeLocation(NamedTuple):
    """The location of a bridge in a cluster.

    Attributes:
        address: address of the cluster.
        node: ID of the node it is attached to.
    """

    address: str
    node: str


@contextmanager
def joined(address: str, store_bytes: int, folder: str) -> Generator[BridgeLocation]:
    """Joins a cluster for the duration of the context.

    Args:
        address: ``auto`` for the cluster that this machine is a node of, ``local`` for a new one with only this
            machine, or HOST:PORT of a head, which this machine joins as a node without resources.
        store_bytes: size of the object store of a node that is started, in bytes.
        folder: folder for the files of such a node.

    Raises:
        NotJoined: the cluster is not available or refuses this process.
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
        # With several nodes on one machine, Ray identifies a program's own node by its folder.
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
    """Starts a node without resources on this machine, as a process needs one to communicate with a cluster."""
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
    """Makes the process end when its parent does, however that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def require_same(address: str) -> None:
    """Checks that the versions of the head at HOST:PORT match those of this process.

    Raises:
        NotJoined: the head does not respond.
        Refused: the versions differ, or the cluster requires a token.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACHED_WITHIN).close()
    except OSError as error:
        raise NotJoined(f"no response from {address}: {error.strerror or error}") from None
    try:
        found = GcsClient(address=address).internal_kv_get(
            b"CLUSTER_METADATA", namespace=b"cluster", timeout=REACHED_WITHIN
        )
    except AuthenticationError:
        raise Refused(f"the cluster at {address} requires a token: see RAY_AUTH_MODE and RAY_AUTH_TOKEN") from None
    except Exception as error:  # Ray's errors have no common base class
        raise NotJoined(f"no response from a Ray head at {address}: {_line(error)}") from None
    if found is not None:
        theirs = json.loads(found)
        compare(address, str(theirs.get("ray_version")), str(theirs.get("python_version")))


def compare(address: str, ray_version: str, python_version: str) -> None:
    """Compares the versions of a cluster with those of this process.

    Raises:
        Refused: the version of Ray, or the minor version of Python, differs.
    """
    ours = platform.python_version()
    if ray_version != ray.__version__ or python_version.split(".")[:2] != ours.split(".")[:2]:
        raise Refused(
            f"the cluster at {address} has Ray {ray_version} and Python {python_version}, this server has Ray "
            f"{ray.__version__} and Python {ours}; install the same versions on both"
        )


def _line(error: Exception) -> str:
    """Returns the first line of an error."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
