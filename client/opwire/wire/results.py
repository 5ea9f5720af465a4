"""The client reads answers: results with numpy arrays, or the error that a problem stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pybase64

from ..check import Validation
from ..errors import OpwireError, RequestError, from_problem
from ..jsontensor import NumberError, read_numbers
from ..level import FeatureLevel
from ..operator import Violation
from ..tensor import Array, BufferTensorDesc, DataType, TensorFlags
from .framing import Buffer, Parts, parse_json, split_body

T = TypeVar("T")

INDICES = "OutputIndicesTensor"


@dataclass(frozen=True, slots=True, eq=False)
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
        total = self.timing.get("total", 0)
        return f"<{type(self).__name__} {shapes} from {self.device} in {total} us, request {self.request_id}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PoolingResult(Result):
    """The result of a pooling that was asked for indices."""

    @property
    def indices(self) -> Array:
        """For each window the row-major position of its greatest element in the whole input tensor."""
        return self.outputs[INDICES]


def read_answer(body: Buffer, head_length: str | None) -> Result:
    """The result in an answer to execute.

    Raises:
        ValueError: the body is not such an answer.
    """
    return _reading(body, head_length, _read_result)


def read_pooling_answer(body: Buffer, head_length: str | None) -> PoolingResult:
    """The result in an answer to an execute request that asked for indices.

    Raises:
        ValueError: the body is not such an answer, or holds no indices.
    """
    result = read_answer(body, head_length)
    if not isinstance(result, PoolingResult):
        raise ValueError("not an answer of opwire: the indices are missing")
    return result


def read_answers(body: Buffer, head_length: str | None) -> list[Result | OpwireError]:
    """The outcomes in an answer to batch, in the order of the requests.

    Raises:
        ValueError: the body is not such an answer.
    """

    def read(answer: Mapping[str, Any], parts: Parts) -> list[Result | OpwireError]:
        return [_read_result(item, parts) if "outputs" in item else from_problem(item) for item in answer["results"]]

    return _reading(body, head_length, read)


def read_validation(body: Buffer) -> Validation:
    """The answer to validate.

    Raises:
        ValueError: the body is not such an answer.
    """

    def read(answer: Mapping[str, Any], _: Parts) -> Validation:
        minimum = answer["minimum_feature_level"]
        return Validation(
            tuple(Violation.from_json(item) for item in answer["violations"]),
            None if minimum is None else FeatureLevel.parse(minimum),
            {name: read_desc(desc) for name, desc in answer["outputs"].items()},
        )

    return _reading(body, None, read)


# What reading a body of another form comes to, besides ValueError.
_MALFORMED = (RequestError, NumberError, LookupError, TypeError, AttributeError, OverflowError)


def _reading(body: Buffer, head_length: str | None, read: Callable[[Any, Parts], T]) -> T:
    try:
        head, data = split_body(body, head_length)
        parts = Parts(data)
        found = read(parse_json(head), parts)
        parts.finish()
    except _MALFORMED as error:
        raise ValueError(f"not an answer of opwire: {error}") from error
    return found


def _read_result(answer: Mapping[str, Any], parts: Parts) -> Result:
    outputs = dict(_read_outputs(answer["outputs"], parts))
    return (PoolingResult if INDICES in outputs else Result)(
        outputs,
        FeatureLevel.parse(answer["feature_level"]),
        answer["device"],
        answer["timing"],
        answer["request_id"],
    )


def _read_outputs(outputs: Mapping[str, Any], parts: Parts) -> Iterator[tuple[str, Array]]:
    for name, output in outputs.items():
        desc = read_desc(output["desc"])
        if "binary_data_size" in output:
            piece = parts.take(output["binary_data_size"], name)
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
        TensorFlags[given.get("Flags", "NONE")],
        given.get("GuaranteedBaseOffsetAlignment", 0),
    )
