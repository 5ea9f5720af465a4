"""A TypeScript client generated from the OpenAPI document compiles and runs, and the document lints clean."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

DOCUMENT = ROOT / "openapi/openapi.json"
SOURCES = ROOT / "tests/typescript"
PACKAGES = Path(sys.prefix) / "node/node_modules"
"""Where ``scripts/install`` puts the packages of npm."""

PRINTED = """\
execute: FLOAT32 2x2 [[30,15],[15,90]]
lists: [[[1,5,2]],[[9,0,3]]]
graph: [[1,5,2],[9,0,3]]
validate: false rank_not_in_level
batch: [[2,10,4],[18,0,6]]
error: 422 /operator/desc/Axes/0
operator: 1
infer: [1,2]
"""


def run(command: list[str], folder: Path) -> str:
    """Returns what a command prints; it must succeed."""
    environment = {**os.environ, "REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=170, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def program(name: str) -> str:
    """Returns the path of a program of npm."""
    if shutil.which("node") is None or not (PACKAGES / ".bin" / name).exists():
        pytest.skip(f"{name} is not installed: scripts/install does that where npm is")
    return str(PACKAGES / ".bin" / name)


def test_a_generated_client_compiles_and_runs(tmp_path: Path, server_url: str):
    generator, compiler = program("openapi-typescript"), program("tsc")
    for source in SOURCES.iterdir():
        shutil.copy(source, tmp_path)
    (tmp_path / "node_modules").symlink_to(PACKAGES)
    run([generator, str(DOCUMENT), "--output", "schema.d.ts"], tmp_path)
    run([compiler, "--project", "."], tmp_path)
    assert run(["node", "out/client.js", server_url], tmp_path) == PRINTED


def test_the_document_lints_clean(tmp_path: Path):
    report = json.loads(run([program("redocly"), "lint", "--format=json", str(DOCUMENT)], tmp_path))
    assert report["problems"] == []
