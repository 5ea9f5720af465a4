"""The declaration of an operator: its fields, support rows, shape rule, constraints and examples, all as data.

An operator is one frozen ``Operator``; ``check`` reads it, and so do the tests, the documents and the OpenAPI examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum, StrEnum
from typing import Any, Generic, TypeVar

from .level import HIGHEST, FeatureLevel, Rows
from .tensor import BufferTensorDesc, DataType

A = TypeVar("A")
"""The attributes of an operator: its fields that are neither tensors nor counts, as a frozen dataclass."""

Tensors = Mapping[str, BufferTensorDesc]


class Role(Enum):
    """What a tensor field is bound to."""

    INPUT = "input"
    OUTPUT = "output"
    OPTIONAL_OUTPUT = "optional output"


@dataclass(frozen=True, slots=True)
class TensorField:
    """A ``const DML_TENSOR_DESC*`` member."""

    name: str
    role: Role


@dataclass(frozen=True, slots=True)
class CountField:
    """A ``UINT`` member that counts the elements of array members; it may be left out."""

    name: str
    counts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArrayField:
    """A ``const UINT*`` member; ``least`` is the smallest value that an element may have."""

    name: str
    least: int = 0


@dataclass(frozen=True, slots=True)
class EnumField:
    """A member of an enum type; its values go by full name, by the name without ``prefix``, or as integers."""

    name: str
    type: type[IntEnum]
    prefix: str


Field = TensorField | CountField | ArrayField | EnumField


class Code(StrEnum):
    """Why a desc or a tensor is refused. The set is closed: it is part of the contract."""

    UNKNOWN_OPERATOR = "unknown_operator"
    OPERATOR_NOT_EXECUTABLE = "operator_not_executable"
    OPERATOR_NOT_IN_LEVEL = "operator_not_in_level"
    UNKNOWN_FEATURE_LEVEL = "unknown_feature_level"
    UNKNOWN_FIELD = "unknown_field"
    MISSING_FIELD = "missing_field"
    WRONG_TYPE = "wrong_type"
    OUT_OF_RANGE = "out_of_range"
    UNKNOWN_VALUE = "unknown_value"
    COUNT_MISMATCH = "count_mismatch"
    DATA_TYPE_NOT_IN_LEVEL = "data_type_not_in_level"
    RANK_NOT_IN_LEVEL = "rank_not_in_level"
    TOO_MANY_ELEMENTS = "too_many_elements"
    TOTAL_SIZE_INVALID = "total_size_invalid"
    FLAGS_INVALID = "flags_invalid"
    ALIGNMENT_INVALID = "alignment_invalid"
    OUTPUT_OVERLAPS = "output_overlaps"
    DATA_TYPES_DIFFER = "data_types_differ"
    RANKS_DIFFER = "ranks_differ"
    SIZES_MISMATCH = "sizes_mismatch"
    AXIS_OUT_OF_RANGE = "axis_out_of_range"
    DUPLICATE_AXIS = "duplicate_axis"
    INDEX_OVERFLOW = "index_overflow"
    WINDOW_TOO_LARGE = "window_too_large"
    WINDOW_WITHOUT_ELEMENT = "window_without_element"
    MISSING_TENSOR = "missing_tensor"
    UNKNOWN_TENSOR = "unknown_tensor"
    BYTE_COUNT_MISMATCH = "byte_count_mismatch"
    SHAPE_MISMATCH = "shape_mismatch"
    INVALID_BASE64 = "invalid_base64"
    INVALID_NUMBER = "invalid_number"
    OVERLAP_CONFLICT = "overlap_conflict"


@dataclass(frozen=True, slots=True)
class Violation:
    """One reason why a request breaks the contract.

    Attributes:
        code: what kind of rule it breaks.
        pointer: JSON pointer (RFC 6901) to the place in the request; what is missing is named by its parent.
        message: what was given and what is allowed.
        allowed: the allowed values, where they can be listed.
        available_from: the lowest feature level at which this place would pass; None if at none, or if the level does
            not matter.
    """

    code: Code
    pointer: str
    message: str
    allowed: Sequence[object] | None = None
    available_from: FeatureLevel | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "code": self.code.value,
            "pointer": self.pointer,
            "message": self.message,
            "allowed": None if self.allowed is None else list(self.allowed),
            "available_from": None if self.available_from is None else str(self.available_from),
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Violation:
        """The violation that ``to_json`` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is not one.
        """
        available = given.get("available_from")
        return cls(
            Code(given["code"]),
            str(given["pointer"]),
            str(given["message"]),
            given.get("allowed"),
            None if available is None else FeatureLevel.parse(available),
        )


@dataclass(frozen=True, slots=True)
class Fault:
    """A broken constraint, as an operator's rules report it: the place is a path of field names and indices."""

    code: Code
    path: tuple[str | int, ...]
    message: str
    allowed: Sequence[object] | None = None


@dataclass(frozen=True, slots=True)
class OutputRule:
    """What an output must be.

    Attributes:
        sizes: for each dimension the sizes that it may have; the first is the one that opwire derives.
        data_type: the derived one.
        same_as: the input whose data type it must share, or None where the support row alone decides.
    """

    sizes: tuple[tuple[int, ...], ...]
    data_type: DataType
    same_as: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A desc that is valid, tensors for it, and the right answer, as nested lists.

    Floats may be given as numbers or as the strings "NaN", "Infinity" and "-Infinity".
    """

    name: str
    desc: Mapping[str, Any]
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    level: FeatureLevel = HIGHEST
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadExample:
    """A desc that must be refused, with the code and the place (a pointer below the operator's ``desc``)."""

    name: str
    desc: Mapping[str, Any]
    code: Code
    pointer: str
    level: FeatureLevel = HIGHEST


@dataclass(frozen=True, slots=True)
class Members:
    """The fields of an operator by kind, each kind in the order of the desc struct.

    Attributes:
        names: of all of them; as a mapping, in which one is found at once.
        tensors, inputs, outputs: all tensors, and those of the roles; optional outputs are outputs.
        input_names: of the inputs.
        values: enums and arrays, which make the attributes.
        counts: of arrays.
    """

    names: Mapping[str, None]
    tensors: tuple[TensorField, ...]
    inputs: tuple[TensorField, ...]
    outputs: tuple[TensorField, ...]
    input_names: frozenset[str]
    values: tuple[EnumField | ArrayField, ...]
    counts: tuple[CountField, ...]

    @classmethod
    def of(cls, fields: Sequence[Field]) -> Members:
        tensors = tuple(member for member in fields if isinstance(member, TensorField))
        return cls(
            dict.fromkeys(member.name for member in fields),
            tensors,
            tuple(member for member in tensors if member.role is Role.INPUT),
            tuple(member for member in tensors if member.role is not Role.INPUT),
            frozenset(member.name for member in tensors if member.role is Role.INPUT),
            tuple(member for member in fields if isinstance(member, EnumField | ArrayField)),
            tuple(member for member in fields if isinstance(member, CountField)),
        )


def _no_faults(attributes: object, tensors: Tensors) -> Iterable[Fault]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator(Generic[A]):
    """A DirectML operator that opwire can run.

    Attributes:
        name: as in ``DML_OPERATOR_TYPE``, without its prefix.
        summary: one sentence on what it computes.
        fields: the members of its desc struct, in their order.
        attributes: makes A from the array and enum fields, by name.
        support: the support rows; they may depend on the attributes (REDUCE).
        constraints: rules between array attributes and inputs; enums must not matter to them.
        outputs: what each output must be; called once the constraints hold.
        output_constraints: rules that also need the outputs' descs.
        work: element visits that the plan costs, for budgets.
        examples: worked examples with their answers.
        bad_examples: descs that must be refused.
    """

    name: str
    summary: str
    fields: tuple[Field, ...]
    attributes: Callable[..., A]
    support: Callable[[A], Rows]
    constraints: Callable[[A, Tensors], Iterable[Fault]] = _no_faults
    outputs: Callable[[A, Tensors], Mapping[str, OutputRule]]
    output_constraints: Callable[[A, Tensors], Iterable[Fault]] = _no_faults
    work: Callable[[A, Tensors], int]
    examples: tuple[Example, ...] = field(repr=False)
    bad_examples: tuple[BadExample, ...] = field(repr=False)
    members: Members = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", Members.of(self.fields))
