"""The service writes answers: outputs as base64, as numbers or in the tail, and the head around them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import pybase64
from pydantic_core import to_json

from ..errors import OpwireError, to_problem
from ..jsontensor import write_numbers
from ..level import FeatureLevel
from ..tensor import Array, BufferTensorDesc
from ..tensor_names import arrays, split
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


class OutputFrame(NamedTuple):
    """The JSON of an output up to its data, and behind it; the same for every answer to a plan."""

    head: bytes
    end: bytes


class EncodedOutput(NamedTuple):
    """An output ready for an answer: JSON text for its data, or raw bytes for the tail, and what stands around them."""

    frame: OutputFrame
    data: Sequence[Buffer]
    raw: bool


class Outcome(NamedTuple):
    """The outcome of an execute request."""

    outputs: Sequence[EncodedOutput]
    level: FeatureLevel
    device: str
    timing: Mapping[str, int]


def output_frames(descs: Mapping[str, BufferTensorDesc]) -> dict[str, OutputFrame]:
    """The JSON around the data of each output of a plan; the tensors of an array are a list."""
    frames: dict[str, OutputFrame] = {}
    names = list(descs)
    lists = arrays(names)
    for name, following in zip_longest(names, names[1:]):
        opening, end = _around(name, following, lists)
        frames[name] = OutputFrame(b'%b{"desc":%b,' % (opening, to_json(descs[name].to_json())), end)
    return frames


def _around(name: str, following: str | None, lists: Container[str]) -> tuple[bytes, bytes]:
    """What stands before and behind an output: its name, or the beginning or the end of a list."""
    member, index = split(name)
    if member not in lists:
        return b"%b:" % to_json(name), b"}"
    opening = b"" if index else b"%b:[" % to_json(member)
    return opening, b"}]" if following is None or split(following)[0] != member else b"}"


def encode_output(
    frame: OutputFrame, desc: BufferTensorDesc, buffer: Array, output_format: OutputFormat
) -> EncodedOutput:
    """Writes an output in the format that the request asks for.

    Args:
        frame: see ``output_frames``.
        desc: of the output.
        buffer: its ``data_size_in_bytes`` bytes.
        output_format: base64 and binary hold the buffer as it is; numbers are the logical elements.
    """
    if output_format is OutputFormat.BINARY:
        return EncodedOutput(frame, [buffer.data], raw=True)
    if output_format is OutputFormat.NUMBERS:
        return EncodedOutput(frame, [to_json(write_numbers(desc.elements(desc.view(buffer))))], raw=False)
    # To put the quotation marks around a large text would hold the interpreter for as long as to encode it.
    return EncodedOutput(frame, [b'"', pybase64.b64encode(buffer.data), b'"'], raw=False)


def write_outcome(outcome: Outcome, request_id: str) -> Answer:
    """The answer to an execute request."""
    head: list[Buffer] = []
    tail: list[Buffer] = []
    separator = b'{"outputs":{'
    for output in outcome.outputs:
        if output.raw:
            opening, end = output.frame
            head.append(b'%b%b"binary_data_size":%d%b' % (separator, opening, sum(map(len, output.data)), end))
            tail += output.data
        else:
            head += (separator, output.frame.head, b'"data":', *output.data, output.frame.end)
        separator = b","
    said = {"device": outcome.device, "timing": outcome.timing, "request_id": request_id}
    head.append(b'},"feature_level":"%b",%b' % (_LEVELS[outcome.level], to_json(said)[1:]))
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
