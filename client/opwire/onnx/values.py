"""The tensors of a model: their types, and the elements of those that are constant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, TypeProto

from ..tensor import Array, DataType
from .errors import ModelError, NotLowered
from .host import evaluate
from .nodes import ModelNode
from .types import data_type_of, element_type_name, sizes_of, tensor_type, type_text


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """A node whose inputs are all constant."""

    node: ModelNode
    opsets: Mapping[str, int]
    values: Mapping[str, Value]

    def compute(self) -> dict[str, Array]:
        """Returns its outputs by name, computed in NumPy."""
        given = {name: self.values[name].array for name in self.node.reads()}
        return {name: np.asarray(array) for name, array in evaluate(self.node, given, self.opsets).items()}


class Value:
    """A tensor of a model.

    Attributes:
        name: its name in the model.
        type: its type; None if unknown. Sizes that are not known have no ``dim_value``.
        recipe: the node that its elements can be computed from, if they are constant but not known yet.
        is_initializer: whether it is an initializer of the model.
    """

    def __init__(
        self, name: str, type_: TypeProto | None = None, array: Array | None = None, *, is_initializer: bool = False
    ) -> None:
        self.name = name
        self.type = type_
        self.is_initializer = is_initializer
        self.recipe: Recipe | None = None
        self._array = array

    @property
    def array(self) -> Array | None:
        """Its elements if it is constant and they can be computed, else None."""
        if self._array is None and self.recipe is not None:
            try:
                self._array = self.recipe.compute()[self.name]
            except ModelError:
                self.recipe = None
        return self._array

    @property
    def is_known(self) -> bool:
        """Whether its elements are known without computing them."""
        return self._array is not None and self.recipe is None

    @property
    def is_constant(self) -> bool:
        return self._array is not None or self.recipe is not None

    @property
    def is_tensor(self) -> bool:
        return self.type is not None and self.type.HasField("tensor_type")

    @property
    def element_type(self) -> int:
        """The ONNX element type; 0 if unknown."""
        return 0 if self.type is None else self.type.tensor_type.elem_type

    @property
    def data_type(self) -> DataType | None:
        """The DirectML data type, or None if there is none."""
        return data_type_of(self.element_type)

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The sizes, () for a scalar; None if one of them is unknown."""
        return sizes_of(self.type)

    def to_json(self) -> dict[str, object]:
        """Returns its element type, in ONNX's words, and its sizes."""
        sizes = self.sizes
        return {"element_type": element_type_name(self.element_type), "sizes": None if sizes is None else list(sizes)}

    def __str__(self) -> str:
        return f"{self.name} ({type_text(self.type)})"


_PROTO_TYPES = {
    np.dtype(ml_dtypes.int4): TensorProto.INT4,
    np.dtype(ml_dtypes.uint4): TensorProto.UINT4,
    np.dtype(ml_dtypes.bfloat16): TensorProto.BFLOAT16,
}


def constant_value(name: str, array: Array, *, is_initializer: bool = False) -> Value:
    """Returns a constant tensor."""
    element_type = _PROTO_TYPES.get(array.dtype) or onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return Value(name, tensor_type(element_type, array.shape), array, is_initializer=is_initializer)


def storable(array: Array) -> Array | None:
    """Returns the elements of a constant as opwire stores them, booleans as bytes; None if DirectML lacks the type."""
    if array.dtype == np.bool_:
        return array.view(np.uint8)
    try:
        DataType.of(array.dtype)
    except TypeError:
        return None
    return array


def lacks_type(value: Value) -> str:
    """Describes that DirectML lacks the element type of a tensor."""
    return f"{value.name} is {element_type_name(value.element_type)}, which DirectML lacks"


def known_sizes(value: Value) -> tuple[int, ...]:
    """Returns the sizes of a tensor.

    Raises:
        NotLowered: they are not known before the model runs, or it has no elements.
    """
    sizes = value.sizes
    if sizes is None:
        raise NotLowered(f"the sizes of {value.name}, {type_text(value.type)}, are not known before the model runs")
    if prod(sizes) == 0:
        raise NotLowered(f"{value.name} has the sizes {list(sizes)}, and DirectML has no tensors without elements")
    return sizes


def known_data_type(value: Value) -> DataType:
    """Returns the data type of a tensor.

    Raises:
        NotLowered: DirectML lacks it.
    """
    data_type = value.data_type
    if data_type is None or not value.is_tensor:
        raise NotLowered(lacks_type(value))
    return data_type
