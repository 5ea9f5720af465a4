"""Tensors in shared memory, with Triton's client: registration, refusals, and isolation."""

from __future__ import annotations

import json
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException, shared_memory

from opwire.errors import NotFoundError
from opwire_service.oip.shared_memory import MAX_REGIONS, Regions, Registration, SharedMemoryRange
from opwire_service.settings import Limits, Settings
from tests.support.http.inference import infer_request, infer_tensor
from tests.support.http.processes import process
from tests.support.http.serving import serving

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared memory is a file")

PREFIX = f"opwire-test-{uuid.uuid4().hex[:8]}-"
ATTRIBUTES = {"Axes": "[1]", "AxisDirection": "INCREASING"}
ARRAY = np.array([[1, 5, 2], [9, 0, 3]], np.float32)
RIGHT = [[1], [0]]

Make = Callable[..., Any]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    limits = Limits(body_bytes=2**20)
    with serving(Settings(port=0, shared_memory_prefix=PREFIX, limits=limits)) as running:
        assert running.url is not None
        yield running.url


@pytest.fixture
def client(server: str) -> Iterator[Any]:
    with triton.InferenceServerClient(server.removeprefix("http://")) as found:
        yield found
        found.unregister_system_shared_memory()


@pytest.fixture
def make(client: Any) -> Iterator[Make]:
    """Creates shared memory of a size and, by default, registers all of it."""
    with ExitStack() as stack:

        def made(name: str, size: int, *, register: bool = True, **changes: Any) -> Any:
            key = key_of(name)
            region = shared_memory.create_shared_memory_region(name, key, size, create_only=True)
            stack.callback(shared_memory.destroy_shared_memory_region, region)
            if register:
                client.register_system_shared_memory(name, key, **{"byte_size": size, **changes})
            return region

        yield made


def key_of(name: str) -> str:
    return f"/{PREFIX}{name}"


def shared_input(region: str, array: Any = ARRAY, **where: int) -> Any:
    tensor = triton.InferInput("InputTensor", array.shape, "FP32" if array.dtype == np.float32 else "INT64")
    tensor.set_shared_memory(region, **{"byte_size": array.nbytes, **where})
    return tensor


def shared_output(region: str, byte_size: int = 8, offset: int = 0) -> Any:
    output = triton.InferRequestedOutput("OutputTensor")
    output.set_shared_memory(region, byte_size, offset)
    return output


def infer(client: Any, source: Any, *outputs: Any, model: str = "ARGMAX", **parameters: Any) -> Any:
    return client.infer(model, [source], outputs=outputs or None, parameters=parameters or ATTRIBUTES)


def test_inputs_and_outputs_can_be_in_shared_memory(client, make):
    assert "system_shared_memory" in client.get_server_metadata()["extensions"]
    source, target = make("in", 24), make("out", 8)
    shared_memory.set_shared_memory_region(source, [ARRAY])
    answer = infer(client, shared_input("in"), shared_output("out"))
    assert answer.get_output("OutputTensor") == {
        "name": "OutputTensor",
        "datatype": "UINT32",
        "shape": [2, 1],
        "parameters": {"shared_memory_region": "out", "shared_memory_byte_size": 8},
    }
    assert shared_memory.get_contents_as_numpy(target, np.uint32, [2, 1]).tolist() == RIGHT
    # In one direction only, with the other one in each form.
    assert infer(client, shared_input("in")).as_numpy("OutputTensor").tolist() == RIGHT
    named = triton.InferRequestedOutput("OutputTensor", binary_data=False)
    assert infer(client, shared_input("in"), named).as_numpy("OutputTensor").tolist() == RIGHT
    shared_memory.set_shared_memory_region(target, [np.zeros(2, np.uint32)])
    sent = triton.InferInput("InputTensor", ARRAY.shape, "FP32").set_data_from_numpy(ARRAY)
    infer(client, sent, shared_output("out"))
    assert shared_memory.get_contents_as_numpy(target, np.uint32, [2, 1]).tolist() == RIGHT


@pytest.mark.anyio
async def test_shared_memory_works_async(server, client, make):
    source = make("in", 24)
    shared_memory.set_shared_memory_region(source, [ARRAY])
    async with triton_aio.InferenceServerClient(server.removeprefix("http://")) as other:
        assert await other.get_system_shared_memory_status("in") == client.get_system_shared_memory_status("in")
        answer = await other.infer("ARGMAX", [shared_input("in")], parameters=ATTRIBUTES)
        assert answer.as_numpy("OutputTensor").tolist() == RIGHT
        await other.unregister_system_shared_memory("in")
        assert await other.get_system_shared_memory_status() == []


@pytest.mark.parametrize("offset", [0, 8, 3, 61])
@pytest.mark.parametrize("inner", [0, 1, 16])
def test_offsets_add_up_at_any_alignment(client, make, offset, inner):
    array = np.array([[3, -(2**62)], [7, 2**62]], np.int64)
    region = make("both", offset + inner + 64 + 7, offset=offset, byte_size=inner + 64 + 7)
    shared_memory.set_shared_memory_region(region, [np.full(offset + inner + 71, 255, np.uint8)])
    raw = shared_memory.get_contents_as_numpy(region, np.uint8, [offset + inner + 71])
    raw[offset + inner : offset + inner + 32] = array.view(np.uint8).reshape(-1)
    place = shared_output("both", 21, inner + 35)
    answer = infer(
        client, shared_input("both", array, offset=inner), place, model="REDUCE", Function="MAX", Axes="[0]"
    ).get_output("OutputTensor")
    said = {"shared_memory_region": "both", "shared_memory_byte_size": 16, "shared_memory_offset": inner + 35}
    assert answer["parameters"] == said
    start = offset + inner + 35
    assert raw[start : start + 16].tobytes() == array.max(axis=0).tobytes()
    assert set(raw[:offset]) | set(raw[start - 3 : start]) | set(raw[start + 16 :]) == {255}


def test_strided_and_optional_outputs_are_written_packed(client, make):
    image = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    source, target = make("in", 64), make("out", 32)
    shared_memory.set_shared_memory_region(source, [image])
    outputs = []
    for number, name in enumerate(("OutputTensor", "OutputIndicesTensor")):
        outputs.append(triton.InferRequestedOutput(name))
        outputs[-1].set_shared_memory("out", 16, 16 * number)
    window = {"Strides": "[2, 2]", "WindowSize": "[2, 2]", "StartPadding": "[0, 0]", "EndPadding": "[0, 0]"}
    infer(client, shared_input("in", image), *outputs, model="MAX_POOLING1", **window)
    assert shared_memory.get_contents_as_numpy(target, np.float32, [4]).tolist() == [5, 7, 13, 15]
    assert shared_memory.get_contents_as_numpy(target, np.uint32, [4], 16).tolist() == [5, 7, 13, 15]
    strided = '{"DataType": "FLOAT32", "Sizes": [1, 1, 1, 4], "Strides": [16, 16, 16, 3]}'
    infer(client, shared_input("in", image), shared_output("out", 16), model="REDUCE", Function="MAX", Axes="[2]",
          OutputTensor=strided)  # fmt: skip
    assert shared_memory.get_contents_as_numpy(target, np.float32, [4]).tolist() == [12, 13, 14, 15]


def test_regions_are_listed_and_unregistered(client, make):
    make("a", 64)
    make("b.1", 64, offset=8, byte_size=50)
    first = {"name": "a", "key": key_of("a"), "offset": 0, "byte_size": 64}
    second = {"name": "b.1", "key": key_of("b.1"), "offset": 8, "byte_size": 50}
    assert client.get_system_shared_memory_status() == [first, second]
    assert client.get_system_shared_memory_status("b.1") == [second]
    client.unregister_system_shared_memory("a")
    client.unregister_system_shared_memory("a")  # not an error, as in Triton
    with pytest.raises(InferenceServerException, match='no shared memory region "a" is registered') as refused:
        client.get_system_shared_memory_status("a")
    assert refused.value.status() == "404"
    with pytest.raises(InferenceServerException, match='no shared memory region "a" is registered') as refused:
        infer(client, shared_input("a"))
    assert refused.value.status() == "404"
    client.register_system_shared_memory("a", key_of("a"), 64)
    client.unregister_system_shared_memory()
    assert client.get_system_shared_memory_status() == []


@pytest.mark.parametrize(
    ("name", "key", "said"),
    [
        ("a", key_of("a"), "already registered"),
        ("n", key_of("none"), "cannot be opened: No such file"),
        ("n", "/other", f"start with /{PREFIX}"),
        ("n", "/", "is not allowed"),
        ("n", "", "is not allowed"),
        ("n", f"/{PREFIX}/../../etc/passwd", "is not allowed"),
        ("n", f"//{PREFIX}a", "is not allowed"),
        ("n", f"/../{PREFIX}a", "is not allowed"),
        ("n", key_of("x" * 300), "is not allowed"),
        ("n", key_of("a\0b"), "is not allowed"),
        ("n" * 129, key_of("a"), "allowed: 1 to 128 of"),
        ("..", key_of("a"), "allowed: 1 to 128 of"),
        ("a b", key_of("a"), "allowed: 1 to 128 of"),
        ("é", key_of("a"), "allowed: 1 to 128 of"),
    ],
    ids=lambda value: value.replace(PREFIX, "PREFIX-"),  # the same in every process of a parallel run
)
def test_invalid_registrations_are_refused(client, make, name, key, said):
    make("a", 64)
    with pytest.raises(InferenceServerException, match=said) as refused:
        client.register_system_shared_memory(name, key, 8)
    assert refused.value.status() == "400"
    assert [region["name"] for region in client.get_system_shared_memory_status()] == ["a"]


@pytest.mark.parametrize(("offset", "size"), [(0, 65), (64, 1), (2**63, 1), (0, 2**80), (0, 0), (-1, 4), (0, -1)])
def test_registrations_beyond_the_object_are_refused(client, make, offset, size):
    make("a", 64, register=False)
    # The system does not round here: an object has exactly the size it was given.
    with pytest.raises(InferenceServerException) as refused:
        client.register_system_shared_memory("a", key_of("a"), size, offset)
    assert refused.value.status() == "400"
    assert client.get_system_shared_memory_status() == []


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"key": 5, "byte_size": 4}', b'{"key": "/k"}', b"{'"])
def test_malformed_registrations_are_refused(server, body):
    assert httpx.post(f"{server}/v2/systemsharedmemory/region/r/register", content=body).status_code == 400


def test_folders_pipes_and_links_are_refused(client, make):
    folder, pipe, link = (Path(f"/dev/shm/{PREFIX}{kind}") for kind in ("folder", "pipe", "link"))
    make("a", 64, register=False)
    try:
        folder.mkdir()
        os.mkfifo(pipe)
        link.symlink_to("/etc/passwd")
        for path in (folder, pipe, link):
            with pytest.raises(InferenceServerException):
                client.register_system_shared_memory("r", f"/{path.name}", 1)
    finally:
        folder.rmdir()
        pipe.unlink()
        link.unlink()


def test_the_number_of_regions_is_bounded(client, make):
    make("a", 64, register=False)
    for number in range(MAX_REGIONS):
        client.register_system_shared_memory(f"r{number}", key_of("a"), 64)
    with pytest.raises(InferenceServerException, match="which is the maximum"):
        client.register_system_shared_memory("one-more", key_of("a"), 64)
    client.unregister_system_shared_memory("r7")
    client.register_system_shared_memory("one-more", key_of("a"), 64)


@pytest.mark.parametrize(
    ("source", "target", "status", "said"),
    [
        ({"byte_size": 20}, {}, "422", "20 bytes given; FLOAT32 with sizes"),
        ({"byte_size": 65}, {}, "400", "bytes 0 to 65 given; region"),
        ({"offset": 41}, {}, "400", "bytes 41 to 65 given; region"),
        ({"offset": 2**64}, {}, "400", "given; region"),
        ({}, {"byte_size": 7}, "400", "7 bytes of shared memory given; OutputTensor needs 8"),
        ({}, {"byte_size": 65}, "400", "bytes 0 to 65 given; region"),
        ({}, {"offset": 57}, "400", "bytes 57 to 65 given; region"),
    ],
)
def test_ranges_beyond_the_region_are_refused(client, make, source, target, status, said):
    make("a", 64)
    with pytest.raises(InferenceServerException, match=said) as refused:
        infer(client, shared_input("a", **source), shared_output("a", **target))
    assert refused.value.status() == status


def test_shared_inputs_have_the_bound_of_bodies(client, make):
    make("huge", 2**20 + 4)
    array = np.broadcast_to(np.float32(0), (1, 2**18 + 1))
    with pytest.raises(InferenceServerException, match="this server takes at most 1048576") as refused:
        infer(client, shared_input("huge", array))
    assert refused.value.status() == "413"


@pytest.mark.parametrize(
    "parameters",
    [
        {"shared_memory_region": "a"},
        {"shared_memory_region": 5, "shared_memory_byte_size": 12},
        {"shared_memory_region": "a", "shared_memory_byte_size": "12"},
        {"shared_memory_region": "a", "shared_memory_byte_size": 12, "shared_memory_offset": -1},
        {"shared_memory_region": "a", "shared_memory_byte_size": 12, "binary_data_size": 12},
    ],
)
def test_malformed_shared_memory_parameters_are_refused(server, make, parameters):
    make("a", 64)
    tensor = {name: value for name, value in infer_tensor().items() if name != "data"}
    for sent in ({**tensor, "parameters": parameters}, {**infer_tensor(), "parameters": parameters}):
        answer = httpx.post(f"{server}/v2/models/ARGMAX/infer", content=json.dumps(infer_request(inputs=[sent])))
        assert answer.status_code == 400
        assert answer.json()["violations"][0]["pointer"].startswith("/inputs/0")


def test_truncated_memory_is_refused_and_harms_nobody(client, make):
    make("a", 2**18)
    array = np.zeros((2**8, 2**8), np.float32)
    assert infer(client, shared_input("a", array)).as_numpy("OutputTensor").shape == (256, 1)
    os.truncate(f"/dev/shm/{PREFIX}a", 1000)
    for source, *target in ((shared_input("a", array),), (shared_input("a"), shared_output("a", 8, 2**17))):
        with pytest.raises(InferenceServerException, match="is smaller than when it was registered") as refused:
            infer(client, source, *target)
        assert refused.value.status() == "400"
    assert os.stat(f"/dev/shm/{PREFIX}a").st_size == 1000
    assert client.is_server_live()


def test_constantly_resized_memory_harms_nobody(client, make):
    """Its size and contents change while requests read and write it."""
    size = 2**19
    region = make("a", size)
    array = np.zeros((2, size // 8), np.float32)
    over = threading.Event()

    def shrink_and_grow() -> None:
        while not over.is_set():
            for length in (size, 4096, 0, size):
                os.truncate(f"/dev/shm/{PREFIX}a", length)

    thread = threading.Thread(target=shrink_and_grow)
    thread.start()
    outcomes = set()
    try:
        for _ in range(60):
            try:
                infer(client, shared_input("a", array), shared_output("a"))
                outcomes.add("200")
            except InferenceServerException as error:
                outcomes.add(error.status())
    finally:
        over.set()
        thread.join()
    assert outcomes <= {"200", "400"}
    shared_memory.set_shared_memory_region(region, [ARRAY])
    assert infer(client, shared_input("a")).as_numpy("OutputTensor").tolist() == RIGHT


def test_an_open_range_survives_unregistering(make, tmp_path):
    region = make("a", 64, register=False)
    regions = Regions(tmp_path, PREFIX)
    regions.register(Registration("r", key_of("a"), 8, 40), None)
    with regions.open(SharedMemoryRange("r", 4, 8, "/parameters"), None) as window:
        regions.unregister(None, None)
        with pytest.raises(NotFoundError), regions.open(SharedMemoryRange("r", 4, 8, "/parameters"), None):
            pass
        window.write(memoryview(b"opwire"))
        assert window.read().tobytes() == b"opwire\0\0"
    assert shared_memory.get_contents_as_numpy(region, np.uint8, [64]).tobytes()[12:18] == b"opwire"


def test_no_file_is_left_open(client, make):
    source, _ = make("in", 24), make("out", 8)
    shared_memory.set_shared_memory_region(source, [ARRAY])

    def opened() -> list[str]:
        """Returns the files that this process has open: the server's, and the client's own mappings."""
        links = (Path(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd"))
        return sorted(str(link.readlink()) for link in links if link.is_symlink() and PREFIX in str(link.readlink()))

    before = opened()
    for _ in range(5):
        infer(client, shared_input("in"), shared_output("out"))
        with pytest.raises(InferenceServerException):
            infer(client, shared_input("in", offset=1), shared_output("out"))
        with pytest.raises(InferenceServerException):
            infer(client, shared_input("in"), shared_output("out"), Axes="[9]", AxisDirection="INCREASING")
    assert opened() == before


def test_shared_memory_is_off_by_default(server_url):
    with triton.InferenceServerClient(server_url.removeprefix("http://")) as client:
        assert "system_shared_memory" not in client.get_server_metadata()["extensions"]
        for call in (
            client.get_system_shared_memory_status,
            client.unregister_system_shared_memory,
            lambda: client.register_system_shared_memory("a", key_of("a"), 4),
            lambda: infer(client, shared_input("a")),
        ):
            with pytest.raises(InferenceServerException, match="shared memory is not enabled") as refused:
                call()
            assert refused.value.status() == "400"


def test_all_processes_share_regions():
    region = shared_memory.create_shared_memory_region("in", key_of("in"), 24, create_only=True)
    shared_memory.set_shared_memory_region(region, [ARRAY])
    options = ("--device", "reference", "--workers", "2", "--shared-memory-prefix", PREFIX)
    try:
        with process(*options) as served:

            def client() -> Any:
                """Connects anew, so that any process may respond."""
                return triton.InferenceServerClient(served.url.removeprefix("http://"))

            with client() as one:
                one.register_system_shared_memory("in", key_of("in"), 24)
            for _ in range(12):
                with client() as one:
                    assert [found["name"] for found in one.get_system_shared_memory_status()] == ["in"]
                    assert infer(one, shared_input("in")).as_numpy("OutputTensor").tolist() == RIGHT
                    with pytest.raises(InferenceServerException, match="already registered"):
                        one.register_system_shared_memory("in", key_of("in"), 24)
            with client() as one:
                one.unregister_system_shared_memory("in")
            for _ in range(12):
                with client() as one:
                    assert one.get_system_shared_memory_status() == []
            served.process.terminate()
            assert served.finish() == 0
            assert not [line for line in served.lines if "Traceback" in line or "leaked" in line]
    finally:
        shared_memory.destroy_shared_memory_region(region)
