"""Thousands of calls leave nothing behind in the object stores of nodes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT

pytest.importorskip("ray")

pytestmark = [pytest.mark.thorough, pytest.mark.serial, pytest.mark.timeout(600)]


def test_ten_thousand_calls_leave_nothing_in_an_object_store():
    command = [sys.executable, "-m", "benchmarks", "cluster", "leaks"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10000 calls" in done.stdout
