"""Writes answers in the service: outputs as base64, as numbers or in the tail, and the JSON around them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
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
    """A body to send: the chunks of its JSON and of its tail."""

    head: Sequence[Buffer]
    tail: Sequence[Buffer] = ()

    @property
    def head_length(self) -> int | None:
        """The length of the JSON, or None if there is no tail."""
        return sum(map(len, self.head)) if self.tail else None

    @property
    def size(self) -> int:
        return sum(map(len, self.head)) + sum(map(len, self.tail))


class OutputFrame(NamedTuple):
    """The JSON before and after an output's data; the same for every answer to a plan."""

    head: bytes
    end: bytes


class EncodedOutput(NamedTuple):
    """An output ready for an answer: its data, as JSON text or as raw bytes for the tail, with the JSON around it."""

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
    """Returns the JSON around the data of each output of a plan; the tensors of an array form a list."""
    frames: dict[str, OutputFrame] = {}
    lists = arrays(descs)
    for member, names in groupby(descs, lambda name: split(name)[0] if split(name)[0] in lists else name):
        tensors = {name: descs[name] for name in names}
        frames.update(zip(tensors, member_frames(member, tensors.values(), is_list=member in lists), strict=True))
    return frames


def member_frames(name: str, descs: Collection[BufferTensorDesc], *, is_list: bool) -> Iterator[OutputFrame]:
    """Yields the JSON around the data of each tensor of an output: a single one, or those of a list."""
    for i, desc in enumerate(descs):
        opening = b"" if i else b"%b:%b" % (to_json(name), b"[" if is_list else b"")
        end = b"}]" if is_list and i == len(descs) - 1 else b"}"
        yield OutputFrame(b'%b{"desc":%b,' % (opening, to_json(desc.to_json())), end)


def encode_output(
    frame: OutputFrame, desc: BufferTensorDesc, buffer: Array, output_format: OutputFormat
) -> EncodedOutput:
    """Encodes an output in the requested format.

    Args:
        frame: see ``output_frames``.
        desc: the desc of the output.
        buffer: its ``data_size_in_bytes`` bytes.
        output_format: base64 and binary contain the buffer as is; numbers are the logical elements.
    """
    if output_format is OutputFormat.BINARY:
        return EncodedOutput(frame, [buffer.data], raw=True)
    if output_format is OutputFormat.NUMBERS:
        return EncodedOutput(frame, [to_json(write_numbers(desc.elements(desc.view(buffer))))], raw=False)
    # Concatenating quotation marks with a large text would hold the GIL for as long as encoding it.
    return EncodedOutput(frame, [b'"', pybase64.b64encode(buffer.data), b'"'], raw=False)


def write_outcome(outcome: Outcome, request_id: str) -> Answer:
    """Returns the answer to an execute request."""
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
    """Returns the JSON after the results of a batch, which follow ``BATCH_BEGINS`` and are separated by commas."""
    return b'],"request_id":%b}' % to_json(request_id)


def write_error(error: OpwireError, request_id: str) -> Answer:
    """Returns the result of a failed request in a batch."""
    return Answer([to_json(to_problem(error, request_id))])


def write_batch(results: Iterable[Answer], request_id: str) -> Answer:
    """Returns the answer to a batch: for each request, the answer that execute would give, or a problem."""
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
