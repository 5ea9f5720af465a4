"""Checks the requirements for joining a cluster before the server starts."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

from ..base import DeviceUnavailable
from .link import environment

REFUSED = 3
"""Exit code of the compatibility check if the cluster refuses this program."""

ANSWERED_WITHIN = 30.0

_QUESTION = f"""
import sys
from opwire_service.devices.ray.joining import NotJoined, Refused, require_same
try:
    require_same(sys.argv[1])
except Refused as error:
    sys.exit(print(error) or {REFUSED})
except NotJoined:
    pass
"""


def require_ray(address: str) -> None:
    """Checks that Ray is installed, and that its versions match those of the head at HOST:PORT if that responds.

    Raises:
        DeviceUnavailable: Ray is not installed, or the cluster refuses this program.
    """
    if find_spec("ray") is None:
        raise DeviceUnavailable("it needs Ray: pip install 'opwire[ray]'")
    if ":" not in address:
        return
    command = [sys.executable, "-c", _QUESTION, address]
    try:  # in a separate process, since Ray may terminate it
        asked = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=ANSWERED_WITHIN)
    except subprocess.TimeoutExpired:
        return
    if asked.returncode == REFUSED:
        raise DeviceUnavailable(asked.stdout.strip())
