"""What a server needs for a cluster, said before it starts."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

from ..base import DeviceUnavailable
from .link import environment

REFUSED = 3
"""Exit code of the question whether a cluster takes this program, where it does not."""

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
    """Asks for Ray, and asks the head at HOST:PORT, if there is one at the moment, for its versions.

    Raises:
        DeviceUnavailable: Ray is not installed, or other versions than those of the cluster.
    """
    if find_spec("ray") is None:
        raise DeviceUnavailable("--ray needs Ray: pip install 'opwire[ray]'")
    if ":" not in address:
        return
    command = [sys.executable, "-c", _QUESTION, address]
    try:  # in a process of its own, which Ray may end
        asked = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=ANSWERED_WITHIN)
    except subprocess.TimeoutExpired:
        return
    if asked.returncode == REFUSED:
        raise DeviceUnavailable(asked.stdout.strip())
