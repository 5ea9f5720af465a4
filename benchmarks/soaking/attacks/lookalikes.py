"""Requests that resemble an earlier one but differ in meaning: each must be answered according to its own JSON.

The expected meaning comes from Python's JSON parser, where the last of duplicate names counts, and from NumPy.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import json
import random
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .wire import BINARY, EXECUTE, HEAD_LENGTH, JSON, Target

_TYPES = {"INT8": np.int8, "UINT8": np.uint8}
_RANDOM = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_LOOKALIKES = ("INT8", "9999", "1234", "true", "null", "AQMC", "Axes", "type", "desc", "SUM+", "4100", "1000")
"""Base64 of three-byte tensors that could be mistaken for something else."""

_INFER = "/v2/models/ARGMAX/infer"
_PARAMETERS = {"Axes": "[0]", "AxisDirection": "INCREASING"}
_REPEATS = 4
"""Number of requests with different tensors before their lookalikes."""


class Message(NamedTuple):
    """A request: its path, its body, and the length of its JSON if a tail follows."""

    path: str
    body: bytes
    head_length: int | None = None


def lookalikes(target: Target) -> None:
    """Families of requests: one is sent several times, then variants that differ slightly."""
    seeds = [target.chance.randrange(2**32) for _ in range(target.size(300, 25))]
    target.each([partial(_family, target, seed) for seed in seeds], 2)


def _family(target: Target, seed: int) -> None:
    chance = random.Random(seed)
    make = chance.choice((_native, _native, _native_tail, _infer))
    connection = http.client.HTTPConnection(*target.address, timeout=10)
    state = chance.getstate()
    for turn in range(_REPEATS):
        chance.setstate(state)
        message = make(chance, random.Random(seed + turn))
        _check(target, connection, message)
    for _ in range(12):
        _check(target, connection, _changed(chance, message))
    connection.close()


def _check(target: Target, connection: http.client.HTTPConnection, message: Message) -> None:
    fields = {"Content-Type": JSON}
    if message.head_length is not None:
        fields = {"Content-Type": BINARY, HEAD_LENGTH: str(message.head_length), "Accept": JSON}
    try:
        connection.request("POST", message.path, message.body, fields)
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        target.tally.sent(type(error).__name__)
        target.tally.expect(False, f"{type(error).__name__} for {message.body!r}")
        return
    target.tally.sent(str(answer.status))
    right = meaning(message)
    found = _found(json.loads(body)) if answer.status == 200 else None
    kept = found == right and (right is not None or 400 <= answer.status < 500)
    target.tally.expect(kept, f"status {answer.status}, {found} instead of {right} for {message.body!r}")


def _found(answer: Mapping[str, Any]) -> int:
    """Returns the index from an answer of either protocol."""
    outputs = answer["outputs"]
    if isinstance(outputs, list):
        return int(outputs[0]["data"][0])
    data = outputs["OutputTensor"]["data"]
    return int(data[0]) if isinstance(data, list) else int.from_bytes(base64.b64decode(data), "little")


def meaning(message: Message) -> int | None:
    """Returns the index that a request asks for, or None if it must be refused."""
    try:
        head = message.body[: message.head_length]
        document = json.loads(head)
        tail = message.body[len(head) :]
        return _meaning_of_infer(document) if message.path == _INFER else _meaning_of_execute(document, tail)
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _meaning_of_execute(document: dict[str, Any], tail: bytes) -> int:
    _only(document, "operator", "inputs", "timeout_ms", "priority", "device", "feature_level", "output_format")
    operator, inputs = document["operator"], document["inputs"]
    _only(operator, "type", "desc")
    _only(operator["desc"], "Function", "InputTensor", "Axes")
    _only(inputs, "InputTensor")
    source = operator["desc"]["InputTensor"]
    _only(source, "DataType", "Sizes")
    _require(operator["type"] in ("REDUCE", "DML_OPERATOR_REDUCE") and operator["desc"]["Axes"] == [0])
    _require(document.get("device", "cpu") in ("cpu", "reference"))
    _require(document.get("feature_level", "6_4") in ("6_4", "DML_FEATURE_LEVEL_6_4"))
    _require(document.get("output_format", "base64") in ("base64", "numbers"))
    timeout, priority = document.get("timeout_ms", 1000), document.get("priority", 0)
    _require(type(timeout) is int and 1 <= timeout <= 60_000 and type(priority) is int and -100 <= priority <= 100)
    given = inputs["InputTensor"]
    if isinstance(given, dict):
        _only(given, "binary_data_size")
        _require(given["binary_data_size"] == len(tail))
        data = tail
    else:
        _require(not tail)
        data = base64.b64decode(given, validate=True)
    numbers = np.frombuffer(data, _TYPES[source["DataType"]])
    _require(source["Sizes"] == [numbers.size] and numbers.size > 0)
    return int({"ARGMAX": np.argmax, "ARGMIN": np.argmin}[operator["desc"]["Function"]](numbers))


def _meaning_of_infer(document: dict[str, Any]) -> int:
    _only(document, "inputs", "parameters", "id")
    (tensor,) = document["inputs"]
    _only(tensor, "name", "datatype", "shape", "data")
    _require(tensor["name"] == "InputTensor" and document["parameters"] == _PARAMETERS)
    _require(isinstance(document.get("id", ""), str))
    low = {"INT8": -128, "UINT8": 0}[tensor["datatype"]]
    numbers = tensor["data"]
    _require(all(type(number) is int and low <= number <= low + 255 for number in numbers))
    _require(tensor["shape"] == [len(numbers)] and len(numbers) > 0)
    return int(np.argmax(numbers))


def _only(found: dict[str, Any], *names: str) -> None:
    _require(not found.keys() - set(names))


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError


def _native(chance: random.Random, tensors: random.Random) -> Message:
    """Writes members in random order, some twice, in varying notations; only the tensors differ between turns."""
    size = chance.choice((3, 3, 6))
    members = _members(chance, size)
    texts = [_tensor(tensors, size) for _ in range(chance.choice((1, 1, 2)))]
    inputs = _object(chance, [("InputTensor", _string(tensors, text)) for text in texts])
    members.append(("inputs", inputs))
    if chance.random() < 0.3:
        members.append(("timeout_ms", chance.choice(("9999", "1234", "5000"))))
    chance.shuffle(members)
    if chance.random() < 0.2:
        members.append(("inputs", inputs))
    return Message(EXECUTE, _object(chance, members).encode())


def _native_tail(chance: random.Random, tensors: random.Random) -> Message:
    """Like ``_native``, with the tensor after the JSON."""
    size = chance.choice((3, 6))
    members = [
        *_members(chance, size),
        ("inputs", _object(chance, [("InputTensor", f'{{"binary_data_size":{size}}}')])),
    ]
    chance.shuffle(members)
    head = _object(chance, members).encode()
    return Message(EXECUTE, head + base64.b64decode(_tensor(tensors, size)), len(head))


def _members(chance: random.Random, size: int) -> list[tuple[str, str]]:
    source = [("DataType", _string(chance, chance.choice(list(_TYPES)))), ("Sizes", f"[{size}]")]
    function = _string(chance, chance.choice(("ARGMAX", "ARGMIN")))
    desc = [("Function", function), ("InputTensor", _object(chance, source)), ("Axes", "[0]")]
    operator = [("type", _string(chance, "REDUCE")), ("desc", _object(chance, desc))]
    found = [("operator", _object(chance, operator))]
    if chance.random() < 0.3:
        found.append(("device", _string(chance, chance.choice(("cpu", "reference")))))
    if chance.random() < 0.2:
        found.append(("priority", str(chance.randrange(4))))
    return found


def _infer(chance: random.Random, tensors: random.Random) -> Message:
    """Writes an inference request whose id and shape resemble its numbers."""
    size = chance.choice((3, 4))
    lists = [",".join(str(tensors.randrange(128)) for _ in range(size)) for _ in range(chance.choice((1, 1, 2)))]
    tensor = [
        ("name", _string(chance, "InputTensor")),
        ("datatype", _string(chance, chance.choice(list(_TYPES)))),
        ("shape", f"[{size}]"),
        *(("data", f"[{numbers}]") for numbers in lists),
    ]
    members = [
        ("inputs", f"[{_object(chance, tensor)}]"),
        ("parameters", _object(chance, [(name, f'"{text}"') for name, text in _PARAMETERS.items()])),
    ]
    if chance.random() < 0.5:
        members.append(("id", _string(chance, f"[{lists[-1]}]")))
    chance.shuffle(members)
    return Message(_INFER, _object(chance, members).encode())


def _tensor(chance: random.Random, size: int) -> str:
    texts = [
        chance.choice(_LOOKALIKES) if chance.random() < 0.5 else "".join(chance.choices(_RANDOM, k=4))
        for _ in range(size // 3)
    ]
    return "".join(texts)


def _string(chance: random.Random, text: str) -> str:
    """Writes a string, usually verbatim, sometimes with one or all characters escaped."""
    drawn = chance.random()
    if drawn > 0.3:
        return f'"{text}"'
    escaped = range(len(text)) if drawn < 0.05 else (chance.randrange(len(text)),)
    return '"' + "".join(f"\\u{ord(c):04x}" if i in escaped else c for i, c in enumerate(text)) + '"'


def _object(chance: random.Random, members: list[tuple[str, str]]) -> str:
    gap = chance.choice(("", "", " ", "\n", "\t \r\n"))
    return "{" + gap + f",{gap}".join(f"{_string(chance, name)}:{gap}{value}" for name, value in members) + gap + "}"


def _changed(chance: random.Random, message: Message) -> Message:
    """Replaces a piece of the text by another of the same length, or changes one byte."""
    end = message.head_length if message.head_length is not None else len(message.body)
    body = bytearray(message.body)
    at = chance.randrange(end)
    drawn = chance.random()
    if drawn < 0.5:
        places = [i for i in range(end - 4) if _is_word(bytes(body[i : i + 4]))]
        at = chance.choice(places)
        body[at : at + 4] = chance.choice((*_LOOKALIKES, "abcd", "AAAA", "9.99", '","A', "\\u00", "    ")).encode()
    elif drawn < 0.8:
        body[at] = chance.choice(b'AZaz09+/=" \\,:{}[]-.\n')
    else:
        digits = [i for i in range(end) if chr(body[i]).isdigit()]
        body[chance.choice(digits)] = chance.choice(b"0123456789")
    return message._replace(body=bytes(body))


def _is_word(text: bytes) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == 3
    except binascii.Error:
        return False
