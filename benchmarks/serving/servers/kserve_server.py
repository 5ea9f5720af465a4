"""KServe with one worker: protocol v1 with base64 or with raw bytes, and v2 with its binary tensors.

python kserve_server.py PORT
"""

import sys

import numpy as np
import pybase64
from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer


class ArgMax(Model):
    def __init__(self) -> None:
        super().__init__("argmax")
        self.ready = True

    async def predict(self, payload, headers=None, response_headers=None):
        if isinstance(payload, InferRequest):
            y = _argmax(payload.inputs[0].as_numpy())
            output = InferOutput("y", list(y.shape), "UINT32")
            output.set_data_from_numpy(y, binary_data=True)
            return InferResponse(payload.id, self.name, [output], use_binary_outputs=True)
        if isinstance(payload, bytes):
            shape = [int(size) for size in headers["x-shape"].split(",")]
            return _argmax(np.frombuffer(payload, np.float32).reshape(shape)).tobytes()
        instance = payload["instances"][0]
        x = np.frombuffer(pybase64.b64decode(instance["b64"], validate=True), np.float32)
        return {"predictions": [{"b64": pybase64.b64encode_as_string(_argmax(x.reshape(instance["shape"])))}]}


def _argmax(x):
    return x.argmax(axis=1).astype(np.uint32)


if __name__ == "__main__":
    server = ModelServer(
        http_port=int(sys.argv[1]), workers=1, enable_grpc=False, enable_latency_logging=False, access_log_format=""
    )
    server.start([ArgMax()])
