"""The service writes answers: outputs as base64, as numbers or in the tail, and the head around them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pybase64
from pydantic_core import to_json

from ..errors import OpwireError, to_problem
from ..jsontensor import write_numbers
from ..level import FeatureLevel
from ..tensor import Array, BufferTensorDesc
from .framing import Buffer
from .requests import OutputFormat


class Answer(NamedTuple):
    """A body to send: the pieces of its JSON, and those of its tail."""

    head: Sequence[Buffer]
    tail: Sequence[Buffer] = ()

    @property
    def head_length(self) -> int | None:
        """The length of the JSON if a tail follows."""
        return sum(map(len, self.head)) if self.tail else None

    @property
    def size(self) -> int:
        return sum(map(len, self.head)) + sum(map(len, self.tail))


class EncodedOutput(NamedTuple):
    """An output ready for an answer: its ``head``, then JSON text for its data, or raw bytes for the tail."""

    head: bytes
    data: Sequence[Buffer]
    raw: bool


class Outcome(NamedTuple):
    """What an execute request came to."""

    outputs: Sequence[EncodedOutput]
    level: FeatureLevel
    device: str
    timing: Mapping[str, int]


def output_head(name: str, desc: BufferTensorDesc) -> bytes:
    """The JSON of an output up to its data; the same for every answer to a plan."""
    return b'%b:{"desc":%b,' % (to_json(name), to_json(desc.to_json()))


def encode_output(head: bytes, desc: BufferTensorDesc, buffer: Array, output_format: OutputFormat) -> EncodedOutput:
    """Writes an output in the format that the request asks for.

    Args:
        head: see ``output_head``.
        desc: of the output.
        buffer: its ``data_size_in_bytes`` bytes.
        output_format: base64 and binary hold the buffer as it is; numbers are the logical elements.
    """
    if output_format is OutputFormat.BINARY:
        return EncodedOutput(head, [buffer.data], raw=True)
    if output_format is OutputFormat.NUMBERS:
        return EncodedOutput(head, [to_json(write_numbers(desc.view(buffer)))], raw=False)
    # To put the quotation marks around a large text would hold the interpreter for as long as to encode it.
    return EncodedOutput(head, [b'"', pybase64.b64encode(buffer.data), b'"'], raw=False)


def write_outcome(outcome: Outcome, request_id: str) -> Answer:
    """The answer to an execute request."""
    head: list[Buffer] = []
    tail: list[Buffer] = []
    separator = b'{"outputs":{'
    for output in outcome.outputs:
        if output.raw:
            head.append(b'%b%b"binary_data_size":%d}' % (separator, output.head, sum(map(len, output.data))))
            tail += output.data
        else:
            head += (separator, output.head, b'"data":', *output.data, b"}")
        separator = b","
    head.append(
        b'},"feature_level":"%b","device":%b,"timing":%b,"request_id":%b}'
        % (_LEVELS[outcome.level], to_json(outcome.device), to_json(outcome.timing), to_json(request_id))
    )
    return Answer(head, tail)


BATCH_BEGINS = b'{"results":['


def batch_ends(request_id: str) -> bytes:
    """The JSON behind the results of a batch, which stand behind ``BATCH_BEGINS`` with commas between them."""
    return b'],"request_id":%b}' % to_json(request_id)


def write_error(error: OpwireError, request_id: str) -> Answer:
    """The result of a request in a batch that was refused."""
    return Answer([to_json(to_problem(error, request_id))])


def write_batch(results: Iterable[Answer], request_id: str) -> Answer:
    """The answer to a batch: for each request what execute would have answered, or a problem."""
    head: list[Buffer] = [BATCH_BEGINS]
    tail: list[Buffer] = []
    for i, result in enumerate(results):
        if i:
            head.append(b",")
        head += result.head
        tail += result.tail
    head.append(batch_ends(request_id))
    return Answer(head, tail)


_LEVELS = {level: str(level).encode() for level in FeatureLevel}
