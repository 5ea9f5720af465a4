"""A typical service: FastAPI, a pydantic model with base64, NumPy, a JSON answer.

python fastapi_server.py PORT
"""

import base64
import sys

import numpy as np
import uvicorn
from fastapi import FastAPI
from pydantic import Base64Bytes, BaseModel

app = FastAPI()


class Tensor(BaseModel):
    shape: list[int]
    data: Base64Bytes


class Indices(BaseModel):
    shape: list[int]
    data: str


@app.post("/argmax")
async def on_the_loop(x: Tensor) -> Indices:
    return argmax(x)


@app.post("/threaded/argmax")
def in_a_thread(x: Tensor) -> Indices:
    return argmax(x)


def argmax(x: Tensor) -> Indices:
    y = np.frombuffer(x.data, np.float32).reshape(x.shape).argmax(axis=1).astype(np.uint32)
    return Indices(shape=list(y.shape), data=base64.b64encode(y).decode())


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", access_log=False, log_level="error")
