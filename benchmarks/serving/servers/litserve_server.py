"""LitServe with one worker and one API server; base64 in JSON, as its workers only receive JSON.

python litserve_server.py PORT
"""

import sys

import litserve
import numpy as np
import pybase64


class ArgMax(litserve.LitAPI):
    def setup(self, device):
        pass

    def decode_request(self, request):
        data = pybase64.b64decode(request["data"], validate=True)
        return np.frombuffer(data, np.float32).reshape(request["shape"])

    def predict(self, x):
        return x.argmax(axis=1).astype(np.uint32)

    def encode_response(self, output):
        return {"data": pybase64.b64encode_as_string(output)}


if __name__ == "__main__":
    server = litserve.LitServer(ArgMax(), accelerator="cpu", workers_per_device=1, timeout=False)
    server.run(
        host="127.0.0.1",
        port=int(sys.argv[1]),
        num_api_servers=1,
        log_level="error",
        access_log=False,
        generate_client_file=False,
    )
