"""The kinds of members of desc structs. Each reads itself from JSON, describes itself and has a JSON Schema."""

from .choices import Choice, Enumerated, TypeChoice
from .counts import Count
from .member import UNREAD, FieldInfo, Member, NestedOperator, Schema, Unread
from .nested import Activations, Nested, NestedArray
from .numbers import NUMBERS, Array, NumberType, Scalar
from .structs import STRUCTS, ScaleBias, Size2D, Struct, Union
from .tensors import Role, Tensor, TensorArray, TensorMember
from .values import GivenTensors, Members

__all__ = [
    "NUMBERS",
    "STRUCTS",
    "UNREAD",
    "Activations",
    "Array",
    "Choice",
    "Count",
    "Enumerated",
    "FieldInfo",
    "GivenTensors",
    "Member",
    "Members",
    "Nested",
    "NestedArray",
    "NestedOperator",
    "NumberType",
    "Role",
    "Scalar",
    "ScaleBias",
    "Schema",
    "Size2D",
    "Struct",
    "Tensor",
    "TensorArray",
    "TensorMember",
    "TypeChoice",
    "Union",
    "Unread",
]
