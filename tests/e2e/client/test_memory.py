"""The client's memory use for large calls, apart from the tensors themselves."""

from __future__ import annotations

import json
import socketserver
import threading
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

SIZE = 64 * 2**20
WORDS = SIZE // 4


class _Reads(socketserver.StreamRequestHandler):
    """Reads a tensor and responds with the tensor that the request's path names."""

    def handle(self) -> None:
        lines = iter(self.rfile.readline, b"\r\n")
        left = sum(int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:"))
        while left:
            left -= len(self.rfile.read(min(left, 65536)))
        words = self.server.words  # type: ignore[attr-defined]  # set by the fixture
        output = {"desc": {"DataType": "FLOAT32", "Sizes": [words]}, "binary_data_size": 4 * words}
        rest = {"feature_level": "DML_FEATURE_LEVEL_6_4", "device": "d", "timing": {}, "request_id": "r"}
        head = json.dumps({"outputs": {"OutputTensor": output}, **rest}).encode()
        answer = (
            b"HTTP/1.1 200 OK",
            b"Content-Type: application/octet-stream",
            b"Inference-Header-Content-Length: %d" % len(head),
            b"Content-Length: %d" % (len(head) + 4 * words),
        )
        self.wfile.write(b"\r\n".join(answer) + b"\r\n\r\n" + head)
        piece = np.ones(2**14, np.float32).tobytes()
        for _ in range(0, 4 * words, len(piece)):
            self.wfile.write(piece[: 4 * words])


@pytest.fixture
def server() -> Iterator[socketserver.TCPServer]:
    with socketserver.TCPServer(("127.0.0.1", 0), _Reads) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield listening
        listening.shutdown()
        thread.join()


@pytest.mark.parametrize(("sent", "received"), [(WORDS, 1), (1, WORDS), (WORDS, WORDS)], ids=["up", "down", "both"])
def test_a_large_tensor_is_held_once(make_client, server, sent, received):
    server.words = received
    client = make_client(f"http://127.0.0.1:{server.server_address[1]}")
    x = np.zeros(sent, np.float32)
    tracemalloc.start()
    try:
        # For an operator that the client does not know, it accepts outputs of any size.
        result = client.execute({"type": "ELEMENT_WISE_SIN", "desc": {}}, x)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.output.shape == (received,)
    assert bool((result.output == 1).all())
    assert not result.output.flags.writeable
    # The sent tensor exists already; the received one is the result.
    assert peak <= 4 * received + 0.2 * 4 * max(sent, received)
