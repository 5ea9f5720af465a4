"""The client reads answers: results with numpy arrays, or the error that a problem stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pybase64

from ..errors import OpwireError, RequestError, from_problem
from ..jsontensor import read_numbers
from ..level import FeatureLevel
from ..tensor import Array, BufferTensorDesc, DataType
from .framing import Buffer, Tail, parse_json, split_body

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Result:
    """What the service answered.

    Attributes:
        outputs: the output arrays by name, each of the shape ``Sizes``; views of the received bytes.
        feature_level: that the operator was checked against.
        device: that ran it.
        timing: microseconds by stage, and ``total``.
        request_id: to be quoted when asking about this request.
    """

    outputs: Mapping[str, Array]
    feature_level: FeatureLevel
    device: str
    timing: Mapping[str, int]
    request_id: str

    @property
    def output(self) -> Array:
        """The first output: ``OutputTensor`` for every operator so far."""
        return next(iter(self.outputs.values()))

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in self.outputs.items())
        return f"<Result {shapes} from {self.device} in {self.timing.get('total', 0)} us, request {self.request_id}>"


def read_answer(body: Buffer, head_length: str | None) -> Result:
    """The result in an answer to execute.

    Raises:
        ValueError: the body is not such an answer.
    """
    return _reading(body, head_length, _read_result)


def read_answers(body: Buffer, head_length: str | None) -> list[Result | OpwireError]:
    """The outcomes in an answer to batch, in the order of the requests.

    Raises:
        ValueError: the body is not such an answer.
    """

    def read(answer: Mapping[str, Any], tail: Tail) -> list[Result | OpwireError]:
        return [_read_result(item, tail) if "outputs" in item else from_problem(item) for item in answer["results"]]

    return _reading(body, head_length, read)


def _reading(body: Buffer, head_length: str | None, read: Callable[[Any, Tail], T]) -> T:
    try:
        head, data = split_body(body, head_length)
        tail = Tail(data)
        found = read(parse_json(head), tail)
        tail.finish()
    except (RequestError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an answer of opwire: {error}") from error
    return found


def _read_result(answer: Mapping[str, Any], tail: Tail) -> Result:
    return Result(
        dict(_read_outputs(answer["outputs"], tail)),
        FeatureLevel.parse(answer["feature_level"]),
        answer["device"],
        answer["timing"],
        answer["request_id"],
    )


def _read_outputs(outputs: Mapping[str, Any], tail: Tail) -> Iterator[tuple[str, Array]]:
    for name, output in outputs.items():
        desc = read_desc(output["desc"])
        if "binary_data_size" in output:
            piece = tail.take(output["binary_data_size"], name)
            view = desc.view(piece)
            yield name, view if view.flags.aligned else desc.view(bytes(piece))
        elif isinstance(output["data"], str):
            yield name, desc.view(pybase64.b64decode(output["data"], validate=True))
        else:
            yield name, read_numbers(output["data"], desc, name)


def read_desc(given: Mapping[str, Any]) -> BufferTensorDesc:
    """A tensor desc as answers write it."""
    strides = given.get("Strides")
    return BufferTensorDesc(
        DataType[given["DataType"]],
        tuple(given["Sizes"]),
        None if strides is None else tuple(strides),
        given.get("TotalTensorSizeInBytes", 0),
    )
