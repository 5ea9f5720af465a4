"""BentoML with one worker; base64 in JSON.

bentoml serve bentoml_service:ArgMax
"""

import bentoml
import numpy as np
import pybase64


@bentoml.service(workers=1, traffic={"timeout": 600, "max_concurrency": 1024}, logging={"access": {"enabled": False}})
class ArgMax:
    @bentoml.api
    async def argmax(self, shape: list[int], data: str) -> str:
        x = np.frombuffer(pybase64.b64decode(data, validate=True), np.float32).reshape(shape)
        return pybase64.b64encode_as_string(x.argmax(axis=1).astype(np.uint32))
