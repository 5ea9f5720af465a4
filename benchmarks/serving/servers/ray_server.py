"""Ray Serve with one replica that receives and returns raw bytes.

python ray_server.py PORT
"""

import sys
import time

import numpy as np
from ray import serve
from starlette.requests import Request
from starlette.responses import Response


@serve.deployment(num_replicas=1, max_ongoing_requests=1024, ray_actor_options={"num_cpus": 1})
class ArgMax:
    async def __call__(self, request: Request) -> Response:
        shape = [int(size) for size in request.headers["x-shape"].split(",")]
        x = np.frombuffer(await request.body(), np.float32).reshape(shape)
        return Response(x.argmax(axis=1).astype(np.uint32).tobytes(), media_type="application/octet-stream")


if __name__ == "__main__":
    serve.start(
        http_options={"host": "127.0.0.1", "port": int(sys.argv[1])},
        logging_config={"enable_access_log": False, "log_level": "ERROR"},
    )
    serve.run(ArgMax.options(logging_config={"enable_access_log": False, "log_level": "ERROR"}).bind())
    while True:
        time.sleep(3600)
