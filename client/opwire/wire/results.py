"""Reads answers in the client: results with numpy arrays, or the errors that problems represent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pybase64

from ..check import Validation
from ..desc import show
from ..errors import OpwireError, RequestError, from_problem
from ..jsontensor import NumberError, read_numbers
from ..level import FeatureLevel
from ..operator import Violation
from ..tensor import MAX_ELEMENTS, MAX_RANK, Array, BufferTensorDesc, DataType, TensorFlags
from ..tensor_names import element, ungrouped
from .framing import Buffer, Parts, parse_json, split_body

T = TypeVar("T")
V = TypeVar("V")

INDICES = "OutputIndicesTensor"

MAX_VALUES = 2**20
"""Default maximum number of JSON values in an answer. Each takes much more memory than its text."""


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The result of an operator or graph.

    Attributes:
        outputs: the outputs by name, each an array of shape ``Sizes``, or a list of arrays if the operator has an array
            of tensors. They may be views of the received bytes.
        feature_level: the level that the operator was checked against.
        device: the device that ran it.
        timing: microseconds by stage, and ``total``.
        request_id: the ID of the request, to quote when reporting problems; empty if it ran in this process.
    """

    outputs: Mapping[str, Any]
    feature_level: FeatureLevel
    device: str
    timing: Mapping[str, int]
    request_id: str

    @property
    def output(self) -> Array:
        """The first output tensor."""
        return next(iter(self.tensors.values()))

    @property
    def tensors(self) -> Mapping[str, Array]:
        """All output arrays by name, those of lists as ``NAME[0]``, ``NAME[1]``, ..."""
        return ungrouped(self.outputs)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in self.tensors.items())
        total = self.timing.get("total", 0)
        request = f", request {self.request_id}" if self.request_id else ""
        return f"<{type(self).__name__} {shapes} from {self.device} in {total} us{request}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PoolingResult(Result):
    """The result of pooling with indices."""

    @property
    def indices(self) -> Array:
        """For each window, the row-major position of its greatest element in the whole input tensor."""
        indices: Array = self.outputs[INDICES]
        return indices


def read_answer(body: Buffer, head_length: str | None, most_values: int = MAX_VALUES) -> Result:
    """Reads the answer to an execute request.

    Args:
        body: the whole body.
        head_length: the length of its JSON head, if it has a tail.
        most_values: the maximum number of JSON values.

    Raises:
        ValueError: the body is not a valid answer.
    """
    return _reading(body, head_length, _read_result, most_values)


def read_pooling_answer(body: Buffer, head_length: str | None, most_values: int = MAX_VALUES) -> PoolingResult:
    """Reads the answer to an execute request for pooling with indices.

    Raises:
        ValueError: the body is not a valid answer, or has no indices.
    """
    result = read_answer(body, head_length, most_values)
    if not isinstance(result, PoolingResult):
        raise ValueError("not an answer of opwire: the indices are missing")
    return result


def read_answers(body: Buffer, head_length: str | None, most_values: int = MAX_VALUES) -> list[Result | OpwireError]:
    """Reads the answer to a batch: the outcomes in the order of the requests.

    Raises:
        ValueError: the body is not a valid answer.
    """

    def read(answer: Mapping[str, Any], parts: Parts) -> list[Result | OpwireError]:
        results = _typed(answer["results"], list, "results")
        return [_read_result(item, parts) if "outputs" in item else from_problem(item) for item in results]

    return _reading(body, head_length, read, most_values)


def read_validation(body: Buffer) -> Validation:
    """Reads the answer to a validate request.

    Raises:
        ValueError: the body is not a valid answer.
    """

    def read(answer: Mapping[str, Any], _: Parts) -> Validation:
        minimum = answer["minimum_feature_level"]
        return Validation(
            tuple(Violation.from_json(item) for item in answer["violations"]),
            None if minimum is None else FeatureLevel.parse(minimum),
            {name: read_desc(desc) for name, desc in answer["outputs"].items()},
            tuple(Violation.from_json(item) for item in answer.get("warnings", ())),
        )

    return _reading(body, None, read, MAX_VALUES)


# Exceptions that reading a malformed body may raise, besides ValueError.
_MALFORMED = (RequestError, NumberError, LookupError, TypeError, AttributeError, OverflowError)


def _reading(body: Buffer, head_length: str | None, read: Callable[[Any, Parts], T], most_values: int) -> T:
    try:
        head, data = split_body(body, head_length)
        text = bytes(head) if isinstance(head, memoryview) else head
        values = sum(map(text.count, (b"[", b"{", b",")))
        if values > most_values:
            raise ValueError(f"its JSON has about {values} values; at most {most_values} are expected")
        parts = Parts(data)
        found = read(parse_json(text), parts)
        parts.finish()
    except _MALFORMED as error:
        raise ValueError(f"not an answer of opwire: {error}") from error
    return found


def _read_result(answer: Mapping[str, Any], parts: Parts) -> Result:
    outputs = {
        name: _read_member(name, output, parts) for name, output in _typed(answer["outputs"], dict, "outputs").items()
    }
    if not outputs:
        raise ValueError("not an answer of opwire: there are no outputs")
    return (PoolingResult if INDICES in outputs else Result)(
        outputs,
        FeatureLevel.parse(answer["feature_level"]),
        _typed(answer["device"], str, "device"),
        _typed(answer["timing"], dict, "timing"),
        _typed(answer["request_id"], str, "request_id"),
    )


def _typed(value: Any, kind: type[V], name: str) -> V:
    if not isinstance(value, kind):
        raise TypeError(f"{name} is of type {type(value).__name__}")
    return value


def _read_member(name: str, output: Any, parts: Parts) -> Array | list[Array]:
    if not isinstance(output, list):
        return _read_output(name, output, parts)
    if not output:
        raise ValueError(f"not an answer of opwire: {name} is an empty list")
    return [_read_output(element(name, i), item, parts) for i, item in enumerate(output)]


def _read_output(name: str, output: Mapping[str, Any], parts: Parts) -> Array:
    desc = read_desc(output["desc"])
    if "binary_data_size" in output:
        size = output["binary_data_size"]
        _check_size(name, size, desc)
        piece = parts.take(size, name)
        view = desc.view(piece)
        return desc.elements(view if view.flags.aligned else desc.view(bytes(piece)))
    if isinstance(output["data"], str):
        data = pybase64.b64decode(output["data"], validate=True)
        _check_size(name, len(data), desc)
        return desc.elements(desc.view(data))
    return desc.elements(read_numbers(output["data"], desc, name))


def _check_size(name: str, size: object, desc: BufferTensorDesc) -> None:
    sizes = desc.accepted_sizes_in_bytes
    if type(size) is not int or size not in sizes:
        allowed = " or ".join(map(str, sizes))
        raise ValueError(f"not an answer of opwire: {name} has {show(size)} bytes; its desc requires {allowed}")


def read_desc(given: Mapping[str, Any]) -> BufferTensorDesc:
    """Reads a tensor desc in the form used in answers.

    Raises:
        LookupError, TypeError, ValueError: it is malformed.
    """
    sizes, strides = _numbers(given["Sizes"], "Sizes", 1), given.get("Strides")
    if strides is not None and len(_numbers(strides, "Strides", 0)) != len(sizes):
        raise ValueError(f"Strides is {show(strides)} for {len(sizes)} dimensions")
    total = given.get("TotalTensorSizeInBytes", 0)
    alignment = given.get("GuaranteedBaseOffsetAlignment", 0)
    _numbers([total, alignment], "TotalTensorSizeInBytes or GuaranteedBaseOffsetAlignment", 0)
    desc = BufferTensorDesc(
        DataType[given["DataType"]],
        sizes,
        None if strides is None else tuple(strides),
        total,
        TensorFlags[given.get("Flags", "NONE")],
        alignment,
    )
    if max(desc.element_count, desc.extent) > MAX_ELEMENTS:
        raise ValueError(f"a desc has {desc.element_count} elements; at most {MAX_ELEMENTS} are allowed")
    return desc


def _numbers(given: Any, name: str, least: int) -> tuple[int, ...]:
    numbers = tuple(_typed(given, list, name))
    if len(numbers) > MAX_RANK or not all(type(number) is int and least <= number < 2**63 for number in numbers):
        raise ValueError(f"{name} is {show(given)}")
    return numbers
