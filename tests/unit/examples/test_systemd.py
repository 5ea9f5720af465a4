"""The systemd unit among the examples: systemd accepts it, and it fits the server's own times and files."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from opwire_service.settings import Settings
from tests.support.paths import EXAMPLES

UNIT = EXAMPLES / "opwire.service"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path):
    """Every line is known; only the program is another one, since /opt/opwire is not there."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/opwire/bin/opwire", sys.executable))
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    about = [line for line in done.stderr.splitlines() if "opwire" in line]
    assert (done.returncode, about) == (0, []), done.stderr

    unit.write_text(unit.read_text().replace("NoNewPrivileges=true", "NoNewPrivilege=true"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "NoNewPrivilege" in done.stderr


def test_the_unit_waits_longer_than_the_server_takes_to_stop():
    found = re.search(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.MULTILINE)
    assert found is not None
    assert int(found[1]) > Settings().drain_seconds + 10
