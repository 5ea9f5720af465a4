"""Sends the same request twice: with the client, and with only the standard library.

Usage: python examples/first_request.py [URL]    URL is the server's, http://127.0.0.1:8000 by default.
"""

import base64
import json
import struct
import sys
from urllib.request import Request, urlopen

import numpy as np

from opwire import Client

ROWS = [[1.0, 5.0, 2.0], [9.0, 3.0, 4.0]]
EXPECTED = [[1], [0]]


def with_client(url: str) -> list[list[int]]:
    with Client(url) as client:
        result = client.argmax(np.array(ROWS, np.float32), axes=[1])
    positions: list[list[int]] = result.output.tolist()
    print(f"client: {positions} of type {result.output.dtype}")
    print(f"        on {result.device}, {result.timing['total']} us on the server, request {result.request_id}")
    return positions


def with_urllib(url: str) -> list[list[int]]:
    tensor = struct.pack("<6f", *ROWS[0], *ROWS[1])
    body = {
        "operator": {
            "type": "DML_OPERATOR_ARGMAX",
            "desc": {
                "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
                "AxisCount": 1,
                "Axes": [1],
                "AxisDirection": "DML_AXIS_DIRECTION_INCREASING",
            },
        },
        "inputs": {"InputTensor": base64.b64encode(tensor).decode()},
    }
    request = Request(f"{url}/v1/execute", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=30) as response:
        answer = json.load(response)
    output = answer["outputs"]["OutputTensor"]
    first, second = struct.unpack("<2I", base64.b64decode(output["data"]))
    print(f"urllib: {[[first], [second]]} from base64 {output['data']}, desc {output['desc']}")
    return [[first], [second]]


def main() -> int:
    url = sys.argv[1].rstrip("/") if len(sys.argv) > 1 else "http://127.0.0.1:8000"
    answers = [with_client(url), with_urllib(url)]
    if answers != [EXPECTED, EXPECTED]:
        print(f"wrong result: the largest elements are at {EXPECTED}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
