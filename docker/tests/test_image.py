"""The image by itself: its contents, how it starts, answers and stops, and its options."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from engine import BASE, IMAGE, LOCKED, MEASURED, ROOT, Container, container, docker, inspect, status, wait_for
from registry import EXAMPLES, check

from opwire import Client
from opwire.errors import OpwireError

MOST_ADDED = 450_000_000
MOST_SECONDS = 3.0
WITHOUT_AVX2 = "processor : 0\nflags : fpu sse sse2 avx\n"


def test_size():
    added = inspect(IMAGE)["Size"] - inspect(BASE)["Size"]
    MEASURED.append(f"image: {inspect(IMAGE)['Size'] / 1e6:.0f} MB, {added / 1e6:.0f} MB above the base image")
    assert added <= MOST_ADDED


def test_cold_start():
    seconds = []
    for _ in range(5):
        start = time.monotonic()
        with container() as started:
            wait_for(lambda url=started.url: status(f"{url}/readyz") == 200, 60, started.logs)
            seconds.append(time.monotonic() - start)
    MEASURED.append(f"docker run to ready: {', '.join(f'{each:.2f}' for each in seconds)} s")
    # The minimum, as the others include noise from the machine.
    assert min(seconds) <= MOST_SECONDS


def test_labels(server: Container):
    labels = inspect(IMAGE)["Config"]["Labels"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert labels["org.opencontainers.image.version"] == project["version"]
    assert labels["org.opencontainers.image.licenses"] == project["license"]
    assert labels["org.opencontainers.image.revision"] == "tested"
    assert httpx.get(f"{server.url}/v1/server").json()["version"] == project["version"]


def test_user_and_file_system(server: Container):
    assert server.execute("id", "-u") == "10001"
    with pytest.raises(AssertionError, match="Read-only file system"):
        server.execute("touch", "/opt/opwire/x")
    assert server.execute("sh", "-c", "touch /tmp/x /var/cache/opwire/x && echo written") == "written"


def test_nothing_to_build_with(server: Container):
    code = "import importlib.util as i; print([m for m in ('pip', 'setuptools', 'hatchling') if i.find_spec(m)])"
    assert server.execute("python", "-c", code) == "[]"
    assert server.execute("sh", "-c", "ls -d /source /wheels 2>/dev/null || true") == ""


def test_healthy(server: Container):
    server.wait_healthy()
    assert inspect(server.name)["State"]["Health"]["FailingStreak"] == 0


@pytest.mark.parametrize(("name", "example"), [pytest.param(*row, id=f"{row[0]}-{row[1].name}") for row in EXAMPLES])
def test_examples(server: Container, name, example):
    with Client(server.url) as client:
        check(client, name, example)


def test_every_kernel_is_ready(server: Container):
    code = "from opwire_service.kernels.cpu.families import KERNELS as K; print(len(K), sum(k.is_cached() for k in K))"
    there, cached = server.execute("python", "-c", code).split()
    assert int(there) == int(cached) > 0


@pytest.mark.parametrize("how", ["asked for", "other processor"])
def test_kernels_for_the_processor(tmp_path: Path, how):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(WITHOUT_AVX2)
    options = {"asked for": ("-e", "OPWIRE_KERNELS=native"), "other processor": ("-v", f"{cpuinfo}:/proc/cpuinfo:ro")}
    with container(*options[how]) as started:
        started.wait_ready()
        assert "compiling kernels for this processor" in started.logs()
        with Client(started.url) as client:
            check(client, *EXAMPLES[0])
        wait_for(lambda: started.execute("find", "/var/cache/opwire", "-name", "*.kernel"), 120, started.logs)


def test_stop_drains():
    """Requests accepted before the stop are answered, and then the container exits with code 0."""
    values = np.random.default_rng(1).standard_normal((1, 1 << 14)).astype(np.float32)
    with container("-e", "OPWIRE_DEVICE=reference") as started, ThreadPoolExecutor(8) as pool:
        started.wait_ready()
        with Client(started.url, timeout=60.0) as client:
            answers = [pool.submit(client.log_sum_exp, values, [1]) for _ in range(8)]
            wait_for(lambda: accepted(started.url) == 8, 30, started.logs)
            stopping = threading.Thread(target=docker, args=("stop", "-t", "60", started.name))
            stopping.start()
            results = [answer.result() for answer in answers]
            stopping.join()
        assert all(np.array_equal(result.output, results[0].output) for result in results)
        assert inspect(started.name)["State"]["ExitCode"] == 0


def accepted(url: str) -> int:
    """Returns the number of queued and running operators."""
    text = httpx.get(f"{url}/metrics", timeout=10).text
    found = re.findall(r"^opwire_(?:queued|running)_operators\{.*\} (\S+)$", text, re.MULTILINE)
    return sum(int(float(each)) for each in found)


def test_several_processes():
    with container("-e", "OPWIRE_WORKERS=2", "--init") as started:
        started.wait_ready()
        with Client(started.url) as client:
            for row in EXAMPLES[:10]:
                check(client, *row)
        docker("stop", "-t", "40", started.name)
        assert inspect(started.name)["State"]["ExitCode"] == 0


def test_api_keys(tmp_path: Path):
    keys = tmp_path / "keys"
    keys.write_text("someone:abc123\n")
    keys.chmod(0o644)
    mounted = ("-v", f"{keys}:/run/secrets/api_keys:ro")
    with container(*mounted) as started:
        started.wait_healthy()
        with Client(started.url) as client, pytest.raises(OpwireError) as refused:
            check(client, *EXAMPLES[0])
        assert refused.value.status == 401
        assert status(f"{started.url}/metrics") == 401
        with Client(started.url, api_key="abc123") as client:
            check(client, *EXAMPLES[0])


@pytest.mark.parametrize(("kind", "said"), [("empty", "contains no API keys"), ("folder", "not a regular file")])
def test_what_holds_no_keys_opens_nothing(tmp_path: Path, kind, said):
    """Docker creates a directory if the file to mount is missing."""
    keys = tmp_path / "keys"
    if kind == "empty":
        keys.touch()
    else:
        keys.mkdir()
    done = subprocess.run(
        ["docker", "run", "--rm", *LOCKED, "-v", f"{keys}:/run/secrets/api_keys:ro", IMAGE],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert said in done.stderr


def test_a_small_memory_limit_is_reported():
    with container("--memory", "1g") as started:
        started.wait_ready()
        assert "OPWIRE_MEMORY_BYTES to at most" in started.logs()


def test_tls(tmp_path: Path):
    pem = tmp_path / "server.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=test",
            "-keyout",
            str(tmp_path / "key"),
            "-out",
            str(tmp_path / "certificate"),
        ],
        check=True,
        capture_output=True,
    )
    pem.write_bytes((tmp_path / "key").read_bytes() + (tmp_path / "certificate").read_bytes())
    os.chmod(pem, 0o644)
    mounted = ("-v", f"{pem}:/run/secrets/tls:ro", "-e", "OPWIRE_TLS_CERTIFICATE=/run/secrets/tls")
    with container(*mounted, scheme="https") as started:
        started.wait_healthy()
        with Client(started.url, verify=False) as client:
            check(client, *EXAMPLES[0])
