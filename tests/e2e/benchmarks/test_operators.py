"""A quick run of the operator benchmark."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

pytest.importorskip("onnxruntime")


def test_a_quick_run_writes_rows_that_later_runs_replace(tmp_path):
    path = tmp_path / "found.json"
    command = [sys.executable, "-m", "benchmarks", "families", "--quick", "--only", "cumulative", "--json", str(path)]
    for _ in range(2):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
    (row,) = json.loads(path.read_text())["rows"]
    assert (row["group"], row["name"], row["size"]) == ("cumulative", "sums of 1024 along 1", "16KB")
    assert {"opwire", "numpy", "onnxruntime"} <= row["seconds"].keys()
    peers = [seconds for name, seconds in row["seconds"].items() if name != "opwire"]
    assert row["ratio"] == pytest.approx(min(peers) / row["seconds"]["opwire"])
    assert 0 < row["equal"]["onnxruntime"] < 1  # its running sums are rounded at each step
