"""HTTP as clients should not or rarely speak it, against the requirements of the standard."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from .wire import EXECUTE, JSON, Answer, Target, execute, is_usual, json_bytes, read_answer, reduction, sending

_CLOSES_WITHIN = 2.0
_REFUSED = frozenset({400, 404, 411, 413, 414, 415, 417, 421, 426, 431, 501, 505})
_H2 = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n"


class _Seen(NamedTuple):
    """The outcome of a connection: the answers, whether the server closed it, and after how many seconds."""

    answers: list[Answer]
    closed: bool
    seconds: float


def _talk(target: Target, data: bytes, most: int, within: float = _CLOSES_WITHIN) -> _Seen:
    """Sends data and reads up to ``most`` answers, until the connection is closed or the time is up."""
    began = time.monotonic()
    found: list[Answer] = []
    closed = False
    try:
        with target.connect(within) as connection, sending(connection, data), connection.makefile("rb") as file:
            while len(found) < most and not closed:
                answer = read_answer(file)
                closed = answer is None
                if answer is not None:
                    found.append(answer)
                    target.tally.sent(str(answer.status))
                    target.tally.expect(is_usual(answer.status) or answer.status == 505, f"status {answer.status}")
    except TimeoutError:
        pass
    except OSError:
        closed = True
    if not found:
        target.tally.sent("closed" if closed else "no answer")
    return _Seen(found, closed, time.monotonic() - began)


def _greatest_of(target: Target, number: int, *lines: bytes, version: bytes = b"1.1", host: bool = True) -> bytes:
    """Returns a request for the maximum of a tensor whose only element is ``number``, answered as numbers."""
    operator = {"type": "REDUCE", "desc": {"Function": "MAX", "InputTensor": _SOURCE, "Axes": [0]}}
    body = json_bytes(execute(operator, number.to_bytes(4, "little"), output_format="numbers"))
    head = [b"POST " + EXECUTE.encode() + b" HTTP/" + version, b"Content-Type: " + JSON.encode()]
    if host:
        head.append(b"Host: " + target.host.encode())
    return b"\r\n".join([*head, *lines, b"Content-Length: %d" % len(body), b"", body])


_SOURCE = {"DataType": "INT32", "Sizes": [1]}


def _number(answer: Answer) -> object:
    document = answer.json()
    if answer.status != 200 or not isinstance(document, dict):
        return None
    return document["outputs"]["OutputTensor"]["data"][0]


def closing(target: Target) -> None:
    """Requests to close the connection, and HTTP/1.0, are honored even if the request is already cached."""
    forms = {
        "Connection: close": partial(_greatest_of, target, 7, b"Connection: close"),
        "connection: Close, TE": partial(_greatest_of, target, 7, b"connection: Close, TE"),
        "HTTP/1.0": partial(_greatest_of, target, 7, version=b"1.0"),
        "HTTP/1.0 without Host": partial(_greatest_of, target, 7, version=b"1.0", host=False),
    }
    for name, make in forms.items():
        for _ in range(4):
            known = _talk(target, _greatest_of(target, 7), 1)
            seen = _talk(target, make(), 2)
            right = [_number(answer) for answer in (*known.answers, *seen.answers)] == [7, 7]
            target.tally.expect(right, f"{name}: {len(seen.answers)} answers, or a wrong one")
            target.tally.expect(seen.closed, f"{name}: the connection is open after {seen.seconds:.0f} s")
            if not seen.closed:
                break


def pipelines(target: Target) -> None:
    """Pipelined requests are answered in order, up to one that closes; with heads like those of many clients."""
    for count in (2, 20, target.size(500, 100)):
        numbers = [target.chance.randrange(2**31) for _ in range(count)]
        data = b"".join(_greatest_of(target, number) for number in numbers)
        seen = _talk(
            target, data + _greatest_of(target, 5, b"Connection: close") + _greatest_of(target, 6), count + 2, 10
        )
        found = [_number(answer) for answer in seen.answers]
        target.tally.expect(
            found == [*numbers, 5], f"{count + 1} pipelined requests: {len(found)} answers, or a wrong one"
        )


def upgrades(target: Target) -> None:
    """An unsupported upgrade is ignored, and what follows is answered or refused, not lost."""
    others = (b"Connection: Upgrade\r\nUpgrade: websocket\r\n", b"Upgrade: h2c\r\n", b"Connection: upgrade\r\n", _H2)
    for lines in others:
        first = _greatest_of(target, 1, lines.rstrip())
        seen = _talk(target, first + _greatest_of(target, 2, b"Connection: close"), 3)
        found = [_number(answer) for answer in seen.answers]
        refused = bool(seen.answers) and seen.closed and seen.answers[-1].status in _REFUSED
        target.tally.expect(found == [1, 2] or refused, f"{lines[:40]!r}: what followed was lost; answers {found}")
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    _refused(target, preface, "the preface of HTTP/2")


def _refused(target: Target, data: bytes, what: str) -> None:
    """Expects that data is refused and the connection closed."""
    seen = _talk(target, data, 2)
    statuses = [answer.status for answer in seen.answers]
    good = len(statuses) <= 1 and all(status in _REFUSED for status in statuses) and seen.closed
    target.tally.expect(good, f"{what}: answers {statuses}, {'closed' if seen.closed else 'open'}")


def malformed(target: Target) -> None:
    """Heads that must be refused: invalid hosts, versions, lengths, names and values, and ambiguous bodies."""
    host, get = b"Host: h\r\n", b"GET /livez HTTP/1.1\r\n"
    post = b"POST /v1/execute HTTP/1.1\r\n" + host
    body = b'{"a":1}'
    heads = {
        "no Host": get + b"\r\n",
        "two Hosts": get + host + b"Host: i\r\n\r\n",
        "the same Host twice": get + host * 2 + b"\r\n",
        "HTTP/2.0": b"GET /livez HTTP/2.0\r\n" + host + b"\r\n",
        "HTTP/3.0": b"GET /livez HTTP/3.0\r\n" + host + b"\r\n",
        "HTTP/1.9.1": b"GET /livez HTTP/1.9.1\r\n" + host + b"\r\n",
        "a space before the colon": get + host + b"A : b\r\n\r\n",
        "NUL in a value": get + host + b"A: b\0c\r\n\r\n",
        "CR in a value": get + host + b"A: b\rX: y\r\n\r\n",
        "two lengths": post + b"Content-Length: 7\r\nContent-Length: 8\r\n\r\n" + body,
        "a length with a sign": post + b"Content-Length: +7\r\n\r\n" + body,
        "a negative length": post + b"Content-Length: -7\r\n\r\n" + body,
        "a length of letters": post + b"Content-Length: seven\r\n\r\n" + body,
        "a huge length": post + b"Content-Length: 99999999999999999999999999\r\n\r\n" + body,
        "a length and chunks": post + b"Content-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "an unknown encoding": post + b"Transfer-Encoding: gzip\r\n\r\n" + body,
        "chunked and then more": post + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "a chunk size that is not a number": post + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n",
        "a negative chunk": post + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n",
        "a huge chunk": post + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}\r\n",
        "a head of 1 MiB": get + host + b"A: " + b"a" * 2**20 + b"\r\n\r\n",
        "10,000 fields": get + host + b"A: b\r\n" * 10_000 + b"\r\n",
    }
    for what, data in heads.items():
        _refused(target, data, what)


def paths(target: Target) -> None:
    """Long and odd paths; what the server logs about them counts, as for every attack."""
    long = "/" + "x" * 30_000
    odd = (long, "/v1/" + "%00" * 5000, "/" + "é" * 9000, "//" * 5000, "/v2/models/" + "A" * 30_000, "/livez?" + long)
    given = [*odd, "/v2/models/%0a%0d%1b[31m/ready", "/../" * 1000, "http://h/livez", "*", "/v1/execute#x", "/livez%00"]
    for path in given * target.size(5, 2):
        head = f"GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nUser-Agent: {'u' * 3000}\r\n\r\n".encode()
        target.ask(head, f"a path {path[:30]!r}", may_close=True)
    answer = target.ask(f"GET http://{target.host}/livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode(), "")
    target.tally.expect(answer is not None and answer.status == 200, "a path in absolute form was refused")


def chunks(target: Target) -> None:
    """Chunked bodies: with tiny chunks, extensions and trailers, and without an end."""
    body = json_bytes(execute(reduction([3], [0])))
    head = target.head("POST", EXECUTE, {"Content-Type": JSON, "Transfer-Encoding": "chunked", "Connection": "close"})
    pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    forms = {
        "single bytes": pieces + b"0\r\n\r\n",
        "trailers": b"%x\r\n%s\r\n0\r\nA: b\r\nHost: c\r\n\r\n" % (len(body), body),
        "extensions": b"%x;a=b\r\n%s\r\n0;c\r\n\r\n" % (len(body), body),
    }
    statuses = set()
    for what, data in forms.items():
        answer = target.ask(head + data, f"chunks with {what}")
        statuses.add(answer.status if answer is not None else 0)
    target.tally.expect(statuses <= {200, 411}, f"chunks: {sorted(statuses)}")
    floods = {
        "a long extension": b"1;" + b"a" * 2**22,
        "trailers without end": pieces + b"0\r\n" + b"A: b\r\n" * 2**18,
        "a million chunks": b"1\r\n \r\n" * 2**20,
        "leading zeros": b"0" * 2**20 + b"1\r\n \r\n",
    }
    for what, data in floods.items():
        target.ask(head + data + b"0\r\n\r\n", what, may_close=True)


def mutations(target: Target) -> None:
    """Valid requests with some bytes changed, removed or inserted: an answer or a closed connection, and soon."""
    whole = _greatest_of(target, 7, b"Connection: close")
    target.each([partial(_mutated, target, _mutation(target, whole)) for _ in range(target.size(600, 60))], 4)


def _mutation(target: Target, whole: bytes) -> bytes:
    changed = bytearray(whole)
    for _ in range(target.chance.randrange(1, 6)):
        at = target.chance.randrange(len(changed))
        kind = target.chance.randrange(3)
        put = b"" if kind == 0 else bytes([target.chance.choice(b' \r\n\0:{}[]"\\,0a\x80\xff')])
        changed[at : at + (kind != 2)] = put
    return bytes(changed)


def _mutated(target: Target, changed: bytes) -> None:
    with suppress(OSError):
        connection = target.connect(0.3)
        with connection, sending(connection, changed), connection.makefile("rb") as file:
            try:
                answer = read_answer(file)
                outcome = "closed" if answer is None else str(answer.status)
            except TimeoutError:  # the server still waits for announced bytes
                answer, outcome = None, "waits"
        target.tally.sent(outcome)
        usual = answer is None or is_usual(answer.status) or answer.status == 505
        target.tally.expect(usual, f"{outcome} for {changed!r}")
        if answer is not None and answer.status not in (200, 404, 405):
            is_problem = isinstance(answer.json(), dict) and "code" in json.loads(answer.body)
            target.tally.expect(is_problem or not answer.body, f"no problem document for {changed!r}")
