"""The images' entrypoint, run by this machine's shell: secrets without keys, and memory bounds."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from opwire_service.settings import Limits, Settings
from tests.support.paths import ROOT

ENTRYPOINT = ROOT / "docker/entrypoint"
SHELL = shutil.which("dash") or "sh"
MIB = 2**20

if not ENTRYPOINT.exists():
    pytest.skip("the images are not here: these are the tests of an installed wheel", allow_module_level=True)
if sys.platform != "linux":
    pytest.skip("the images run Linux", allow_module_level=True)


class Machine:
    """Folders that stand for those of a container, and a fake opwire that prints how it was started."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.secret = root / "run/secrets/api_keys"
        self.secret.parent.mkdir(parents=True)
        self.cgroup = root / "sys/fs/cgroup"
        self.cgroup.mkdir(parents=True)
        script = ENTRYPOINT.read_text(encoding="utf-8")
        for folder in ("/run/secrets", "/sys/fs/cgroup"):
            assert folder in script
            script = script.replace(folder, f"{root}{folder}")
        (root / "entrypoint").write_text(script, encoding="utf-8")
        program = root / "opwire"
        program.write_text('#!/bin/sh\necho "started $* keys=${OPWIRE_API_KEYS_FILE:-none}"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{self.root}{os.pathsep}{os.environ['PATH']}", **variables}
        command = [SHELL, str(self.root / "entrypoint"), *(arguments or ("serve",))]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_a_secret_no_key_is_required(machine):
    assert machine.run().stdout == "started serve keys=none\n"


def test_a_key_file_is_used(machine):
    machine.secret.write_text("alice:abc\n")
    assert machine.run().stdout == f"started serve keys={machine.secret}\n"
    assert machine.run(OPWIRE_API_KEYS_FILE="/other").stdout == "started serve keys=/other\n"


def test_links_are_followed(machine):
    """Kubernetes mounts secrets as links."""
    file = machine.root / "keys"
    file.write_text("alice:abc\n")
    machine.secret.symlink_to(file)
    assert machine.run().stdout == f"started serve keys={machine.secret}\n"


def test_dev_null_means_no_keys(machine):
    machine.secret.symlink_to("/dev/null")
    assert machine.run().stdout == "started serve keys=none\n"


@pytest.mark.parametrize("kind", ["folder", "pipe", "link to nothing", "other device"])
def test_an_invalid_key_file_does_not_leave_the_server_open(machine, kind):
    if kind == "folder":
        machine.secret.mkdir()
    elif kind == "pipe":
        os.mkfifo(machine.secret)
    else:
        machine.secret.symlink_to("/nowhere" if kind == "link to nothing" else "/dev/zero")
    done = machine.run()
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{machine.secret} exists but is not a regular file" in done.stderr


def test_a_small_memory_limit_is_reported(machine):
    (machine.cgroup / "memory.max").write_text(f"{1024 * MIB}\n")
    done = machine.run(OPWIRE_MEMORY_BYTES=str(1000 * MIB), OPWIRE_WORKERS="1")
    assert done.stdout.startswith("started")
    assert f"limited to {1024 * MIB} bytes" in done.stderr
    found = re.search(r"OPWIRE_MEMORY_BYTES to at most (\d+)", done.stderr)
    assert found
    assert machine.run(OPWIRE_MEMORY_BYTES=found[1]).stderr == ""
    assert "may be killed" in machine.run(OPWIRE_MEMORY_BYTES=str(int(found[1]) + 10)).stderr
    assert "may be killed" in machine.run(OPWIRE_MEMORY_BYTES=found[1], OPWIRE_WORKERS="2").stderr
    assert machine.run("operators", OPWIRE_MEMORY_BYTES=str(1000 * MIB)).stderr == ""


@pytest.mark.parametrize("limit", ["max", "9223372036854771712", str(8192 * MIB)])
@pytest.mark.parametrize("file", ["memory.max", "memory/memory.limit_in_bytes"])
def test_sufficient_memory_is_not_reported(machine, file, limit):
    (machine.cgroup / file).parent.mkdir(exist_ok=True)
    (machine.cgroup / file).write_text(f"{limit}\n")
    assert machine.run().stderr == ""


@pytest.mark.parametrize("given", ["", "lots", "-5"])
def test_an_invalid_budget_is_left_to_the_server(machine, given):
    (machine.cgroup / "memory.max").write_text(f"{8192 * MIB}\n")
    assert machine.run(OPWIRE_MEMORY_BYTES=given).stderr == ""


def test_the_default_budget_matches_the_server():
    found = re.findall(
        r"OPWIRE_MEMORY_BYTES:-(\d+)", ENTRYPOINT.read_text() + (ROOT / "docker/compose.yaml").read_text()
    )
    assert {int(each) for each in found} == {Limits().memory_bytes}


def test_compose_limits_memory_to_twice_the_budget():
    text = (ROOT / "docker/compose.yaml").read_text(encoding="utf-8")
    found = re.search(r"mem_limit: \$\{OPWIRE_MEMORY:-(\d+)g\}", text)
    assert found
    assert int(found[1]) * 1024 * MIB == 2 * Limits().memory_bytes


def test_metrics_are_private_by_default():
    assert not Settings().metrics_open
    text = (ROOT / "docker/compose.yaml").read_text(encoding="utf-8")
    assert re.findall(r"OPWIRE_METRICS_OPEN:-(\w+)", text) == ["false"]


def test_every_compose_variable_is_documented():
    """.env.example shows the variables that the compose file reads, with the same defaults."""
    used = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", (ROOT / "docker/compose.yaml").read_text(encoding="utf-8")))
    lines = (ROOT / "docker/.env.example").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^#(\w+)=(.*)$", lines, re.MULTILINE))
    del shown["COMPOSE_PROJECT_NAME"]  # read by compose itself
    # In the place of these are names that a person would write.
    shown |= {"OPWIRE_API_KEYS": "/dev/null", "OPWIRE_METRICS_KEY": "/dev/null"}
    assert shown == used
