"""MLServer with one model in process: its base64 codec on inputs and outputs, no access log, no compression.

python mlserver_server.py PORT
"""

import asyncio
import sys

import numpy as np
from mlserver import MLModel, MLServer, ModelSettings, Settings
from mlserver.codecs import Base64Codec
from mlserver.types import InferenceRequest, InferenceResponse


class ArgMax(MLModel):
    async def load(self) -> bool:
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        given = payload.inputs[0]
        data = Base64Codec.decode_input(given)[0]
        y = np.frombuffer(data, np.float32).reshape(given.parameters.sizes).argmax(axis=1).astype(np.uint32)
        answer = Base64Codec.encode_output("y", [y.tobytes()], use_bytes=False)
        return InferenceResponse(model_name=self.name, outputs=[answer])


async def serve(port: int) -> None:
    server = MLServer(
        Settings(
            debug=False,
            host="127.0.0.1",
            http_port=port,
            grpc_port=port + 1,
            metrics_endpoint=None,
            parallel_workers=0,
            gzip_enabled=False,
            load_models_at_startup=False,
        )
    )
    await server.start([ModelSettings(name="argmax", implementation=ArgMax)])


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
