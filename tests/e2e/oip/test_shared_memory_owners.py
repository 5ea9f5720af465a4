"""Shared memory regions belong to the API key that registered them; others cannot use them."""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tritonclient.utils import shared_memory

from opwire.errors import NotFoundError, RequestError
from opwire_service.oip.shared_memory import MAX_REGIONS, Regions, Registration, SharedMemoryRange
from opwire_service.settings import Settings
from tests.support.http.inference import infer_request, infer_tensor
from tests.support.http.processes import process
from tests.support.http.serving import serving

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared memory is a file")

PREFIX = f"opwire-owners-{uuid.uuid4().hex[:8]}-"
ARRAY = np.array([[1, 5, 2], [9, 0, 3]], np.float32)
RIGHT = [1, 0, 1]
KEYS = "alice:a1\nalice:a2\nbob:b1\n..:d1\nc1\n"


@pytest.fixture(scope="module")
def keys_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(KEYS)
    return file


@pytest.fixture(scope="module")
def server(keys_file: Path) -> Iterator[str]:
    settings = Settings(port=0, devices=("reference",), api_keys_file=keys_file, shared_memory_prefix=PREFIX)
    with serving(settings) as running:
        assert running.url is not None
        yield running.url


@pytest.fixture
def objects() -> Iterator[list[str]]:
    """The keys of two shared memory objects with the same tensor."""
    names = [f"/{PREFIX}{uuid.uuid4().hex[:8]}" for _ in range(2)]
    with ExitStack() as stack:
        for name in names:
            region = shared_memory.create_shared_memory_region(name, name, 24, create_only=True)
            stack.callback(shared_memory.destroy_shared_memory_region, region)
            shared_memory.set_shared_memory_region(region, [ARRAY])
        yield names


class Client:
    """Sends requests of the protocol with one API key, each on its own connection."""

    def __init__(self, url: str, key: str) -> None:
        self._url = f"{url}/v2"
        self._headers = {"authorization": f"Bearer {key}"}

    def post(self, path: str, body: object = None) -> httpx.Response:
        return httpx.post(self._url + path, headers=self._headers, json=body)

    def register(self, name: str, key: str) -> httpx.Response:
        return self.post(f"/systemsharedmemory/region/{name}/register", {"key": key, "byte_size": 24})

    def unregister(self, name: str | None = None) -> httpx.Response:
        return self.post(f"/systemsharedmemory{'' if name is None else f'/region/{name}'}/unregister")

    def regions(self, name: str | None = None) -> Any:
        path = f"/systemsharedmemory{'' if name is None else f'/region/{name}'}/status"
        answer = httpx.get(self._url + path, headers=self._headers)
        return {each["name"]: each["key"] for each in answer.json()} if answer.is_success else answer.status_code

    def infer(self, region: str, *, output: str | None = None) -> httpx.Response:
        place = {"shared_memory_region": region, "shared_memory_byte_size": 24}
        tensor = {name: value for name, value in infer_tensor().items() if name != "data"}
        request = infer_request(inputs=[{**tensor, "shape": [2, 3], "parameters": place}])
        if output is not None:
            place = {"shared_memory_region": output, "shared_memory_byte_size": 12}
            request["outputs"] = [{"name": "OutputTensor", "parameters": place}]
        return self.post("/models/ARGMAX/infer", request)


@pytest.fixture
def clients(server: str) -> Iterator[dict[str, Client]]:
    found = {key: Client(server, key) for key in ("a1", "a2", "b1", "c1", "d1")}
    yield found
    for client in found.values():
        assert client.unregister().status_code == 200


def test_other_owners_cannot_use_a_region(clients, objects):
    alice, bob = clients["a1"], clients["b1"]
    assert alice.register("in", objects[0]).status_code == 200
    for other in (bob, clients["c1"], clients["d1"]):
        assert other.regions() == {}
        assert other.regions("in") == 404
        assert other.infer("in").status_code == 404
        assert other.unregister("in").status_code == 200
        assert other.unregister().status_code == 200
    assert bob.register("own", objects[1]).status_code == 200
    assert bob.infer("own", output="in").status_code == 404
    assert bob.unregister().status_code == 200
    assert alice.regions() == {"in": objects[0]}
    assert alice.infer("in").json()["outputs"][0]["data"] == RIGHT


def test_owners_can_use_the_same_name(clients, objects):
    alice, bob = clients["a1"], clients["b1"]
    assert alice.register("in", objects[0]).status_code == 200
    assert bob.register("in", objects[1]).status_code == 200
    assert alice.regions() == {"in": objects[0]}
    assert bob.regions("in") == {"in": objects[1]}
    assert bob.unregister().status_code == 200
    assert alice.infer("in").status_code == 200
    assert bob.infer("in").status_code == 404


def test_an_object_cannot_be_registered_by_two_owners(clients, objects):
    assert clients["a1"].register("in", objects[0]).status_code == 200
    for key in (objects[0], objects[0].removeprefix("/")):
        refused = clients["b1"].register("mine", key)
        assert refused.status_code == 400
        assert "registered by the owner of another API key" in refused.json()["detail"]
    assert clients["b1"].regions() == {}
    assert clients["a1"].register("again", objects[0]).status_code == 200
    assert clients["a1"].unregister().status_code == 200
    assert clients["b1"].register("mine", objects[0]).status_code == 200


def test_keys_with_the_same_name_are_one_owner(clients, objects):
    assert clients["a1"].register("in", objects[0]).status_code == 200
    assert clients["a2"].regions() == {"in": objects[0]}
    assert clients["a2"].infer("in").status_code == 200


def test_all_processes_keep_owners_apart(keys_file, objects):
    options = ("--device", "reference", "--workers", "2", "--shared-memory-prefix", PREFIX)
    with process(*options, "--api-keys-file", str(keys_file)) as served:
        alice, bob = Client(served.url, "a1"), Client(served.url, "b1")
        assert alice.register("in", objects[0]).status_code == 200
        for _ in range(8):
            assert bob.infer("in").status_code == 404
            assert bob.register("in", objects[0]).status_code == 400
            assert bob.unregister().status_code == 200
            assert alice.infer("in").status_code == 200


def test_concurrent_registrations_of_an_object_have_at_most_one_winner(tmp_path, objects):
    regions = {owner: Regions(tmp_path, PREFIX) for owner in ("alice", "bob")}
    winners = []
    for _ in range(50):
        barrier = threading.Barrier(2)

        def register(owner: str, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            with suppress(RequestError):
                regions[owner].register(Registration("r", objects[0], 0, 24), owner)

        threads = [threading.Thread(target=register, args=(owner,)) for owner in regions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winners.append(sum(len(each.status(None, owner)) for owner, each in regions.items()))
        for owner, each in regions.items():
            each.unregister(None, owner)
    assert max(winners) == 1


def test_the_number_of_regions_is_bounded_per_owner(tmp_path, objects):
    regions = Regions(tmp_path, PREFIX)
    for number in range(MAX_REGIONS):
        regions.register(Registration(f"r{number}", objects[0], 0, 24), "alice")
    with pytest.raises(RequestError, match="which is the maximum"):
        regions.register(Registration("more", objects[0], 0, 24), "alice")
    regions.register(Registration("r", objects[1], 0, 24), "bob")
    with pytest.raises(NotFoundError), regions.open(SharedMemoryRange("r", 0, 24, "/parameters"), None):
        pass
