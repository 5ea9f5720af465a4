"""Members that are tensor descs, and arrays of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import count, takewhile
from typing import Any, ClassVar

from ..desc import MAX_REPORTED, Report, pointer_to, show
from ..tensor import BufferTensorDesc
from ..tensor_desc import GivenTensor, read_tensor
from ..violation import Code
from .member import UNREAD, FieldInfo, Schema, StructuredMember

MOST_TENSORS = 1024
"""Maximum number of tensors in an array member, to reject longer lists before reading them (opwire's own limit)."""


class Role(Enum):
    """The role of a tensor: input or output, required or optional."""

    INPUT = "input"
    OPTIONAL_INPUT = "optional input"
    OUTPUT = "output"
    OPTIONAL_OUTPUT = "optional output"

    @property
    def is_output(self) -> bool:
        return self is Role.OUTPUT or self is Role.OPTIONAL_OUTPUT

    @property
    def is_optional(self) -> bool:
        return self is Role.OPTIONAL_INPUT or self is Role.OPTIONAL_OUTPUT


@dataclass(frozen=True, slots=True)
class TensorMember(StructuredMember, ABC):
    """A tensor, or an array of tensors. An output that can be derived may be omitted."""

    is_array: ClassVar[bool] = False

    role: Role

    @property
    def required(self) -> bool:
        return self.role is Role.INPUT

    @property
    def nullable(self) -> bool:
        return self.role is not Role.INPUT

    def left_out(self, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        if self.role is Role.INPUT:
            report.missing(self.name, desc, pointer)
            return UNREAD
        return None

    @abstractmethod
    def place(self, value: Any, values: dict[str, Any], places: dict[str, GivenTensor]) -> None:
        """Adds a value that was read to ``values``, by member name, and each of its descs to ``places``."""

    @abstractmethod
    def parts(self, value: Any) -> Iterable[tuple[str, BufferTensorDesc]]:
        """Returns the descs of a value that is not None, with their names in plans."""

    @abstractmethod
    def among(self, tensors: Mapping[str, BufferTensorDesc]) -> Any:
        """Returns the member's value, given the tensors of a plan; None if it has none of them."""

    def describe(self) -> FieldInfo:
        return {"name": self.name, "kind": self.kind, "role": self.role.value}


@dataclass(frozen=True, slots=True)
class Tensor(TensorMember):
    """A ``const DML_TENSOR_DESC*`` member; its value is a ``GivenTensor``."""

    kind: ClassVar[str] = "tensor"

    def read_value(self, given: Any, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        tensor = read_tensor(given, pointer, report, output=self.role.is_output)
        return UNREAD if tensor is None else tensor

    def place(self, value: Any, values: dict[str, Any], places: dict[str, GivenTensor]) -> None:
        if value is None:
            values[self.name] = None
            return
        values[self.name] = value.desc
        places[self.name] = value

    def parts(self, value: Any) -> Iterable[tuple[str, BufferTensorDesc]]:
        return ((self.name, value),)

    def among(self, tensors: Mapping[str, BufferTensorDesc]) -> BufferTensorDesc | None:
        return tensors.get(self.name)

    def json_schema(self) -> Schema:
        return {"$ref": "#/components/schemas/TensorDesc"}

    def hint(self) -> str:
        return "a tensor desc as JSON text; optional"


@dataclass(frozen=True, slots=True)
class TensorArray(TensorMember):
    """An array of tensors; its value is a tuple of ``GivenTensor``. ``count`` names the member that counts it."""

    kind: ClassVar[str] = "tensors"
    is_array: ClassVar[bool] = True

    count: str | None = field(default=None, kw_only=True)

    def read_value(self, given: Any, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        if not isinstance(given, list | tuple):
            report.add(Code.WRONG_TYPE, pointer, f"{show(given)} given; expected a list of tensor descs")
            return UNREAD
        if len(given) > MOST_TENSORS:
            message = f"{len(given)} tensors given; opwire takes at most {MOST_TENSORS}"
            report.add(Code.OUT_OF_RANGE, pointer, message)
            return UNREAD
        tensors: list[GivenTensor] = []
        output = self.role.is_output
        for i, item in enumerate(given):
            tensor = read_tensor(item, pointer_to(pointer, i), report, output=output)
            if tensor is not None:
                tensors.append(tensor)
            elif len(report.violations) >= MAX_REPORTED:
                break
        return tuple(tensors) if len(tensors) == len(given) else UNREAD

    def place(self, value: Any, values: dict[str, Any], places: dict[str, GivenTensor]) -> None:
        if value is None:
            values[self.name] = None
            return
        values[self.name] = tuple(tensor.desc for tensor in value)
        places.update((f"{self.name}[{i}]", tensor) for i, tensor in enumerate(value))

    def parts(self, value: Any) -> Iterable[tuple[str, BufferTensorDesc]]:
        return ((f"{self.name}[{i}]", tensor) for i, tensor in enumerate(value))

    def among(self, tensors: Mapping[str, BufferTensorDesc]) -> tuple[BufferTensorDesc, ...] | None:
        names = takewhile(tensors.__contains__, (f"{self.name}[{i}]" for i in count()))
        return tuple(tensors[name] for name in names) or None

    def describe(self) -> FieldInfo:
        info = TensorMember.describe(self)
        return info if self.count is None else {**info, "count": self.count}

    def json_schema(self) -> Schema:
        return {"type": "array", "maxItems": MOST_TENSORS, "items": {"$ref": "#/components/schemas/TensorDesc"}}

    def hint(self) -> str:
        return "a list of tensor descs as JSON text; optional"
