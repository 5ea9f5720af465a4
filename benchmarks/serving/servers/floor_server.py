"""The bare ASGI floor: reads the body and answers 20 bytes. No server on uvicorn can be faster.

python floor_server.py PORT
"""

import sys

import uvicorn

ANSWER = b"x" * 20
HEADERS = [(b"content-length", b"20"), (b"content-type", b"application/octet-stream")]


async def app(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": ANSWER})


if __name__ == "__main__":
    uvicorn.run(
        app, port=int(sys.argv[1]), loop="uvloop", http="httptools", lifespan="off", access_log=False, log_level="error"
    )
