"""What lowerings work with: a node of a model on one side, a graph of DirectML operators on the other.

A lowering is a function of a ``NodeLowering`` that adds operators to a graph and returns the node's outputs::

    @lowers("Softplus")
    def softplus(node: NodeLowering) -> GraphTensor:
        return node.emit("ACTIVATION_SOFTPLUS", InputTensor=node.lifted(0), Steepness=1.0)

Outputs that the schema of the operator gives sizes to may have other sizes with as many elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..client.graph_tensors import GraphTensor
from ..tensor import Array, DataType
from .errors import NotLowered
from .graph import ModelGraph
from .nodes import Domain, ModelNode
from .values import Value, known_data_type, known_sizes

Outputs = GraphTensor | Sequence[GraphTensor | None]

Lowering = Callable[["NodeLowering"], Outputs]

LOWERINGS: dict[tuple[Domain, str], Lowering] = {}
"""The lowering of each operator, by domain and name."""

ONNX, MICROSOFT, FUSED = "", "com.microsoft", "com.microsoft.dml"
"""The domains of operators that are lowered."""


def lowers(*names: str, domain: Domain = ONNX) -> Callable[[Lowering], Lowering]:
    """Registers a function as the lowering of one or more operators."""

    def register(function: Lowering) -> Lowering:
        for name in names:
            assert (domain, name) not in LOWERINGS, f"{name} has two lowerings"
            LOWERINGS[domain, name] = function
        return function

    return register


class NodeLowering:
    """A node that is being lowered.

    Attributes:
        node: the node.
        graph: the graph that takes its operators.
        values: the tensors of the model by name.
    """

    def __init__(self, node: ModelNode, graph: ModelGraph, values: Mapping[str, Value]) -> None:
        self.node = node
        self.graph = graph
        self.values = values

    # The node.

    @property
    def since(self) -> int:
        """The version since which the operator is as in the model."""
        return self.node.since

    @property
    def operator(self) -> str:
        return self.node.proto.op_type

    def attribute(self, name: str, default: Any = None) -> Any:
        """Returns an attribute, the default of the operator's schema, or the given default."""
        return self.node.attributes.get(name, default)

    def given(self, name: str) -> bool:
        """Returns whether an attribute is written in the node, rather than left at its default."""
        return any(each.name == name for each in self.node.proto.attribute)

    @property
    def input_count(self) -> int:
        """The number of inputs, including those left out before others."""
        return len(self.node.inputs)

    def has(self, i: int) -> bool:
        """Returns whether input ``i`` is given."""
        return i < len(self.node.inputs) and bool(self.node.inputs[i])

    def wants(self, i: int) -> bool:
        """Returns whether output ``i`` is used."""
        return i < len(self.node.outputs) and bool(self.node.outputs[i])

    def value(self, i: int) -> Value:
        """Returns input ``i`` as the model has it.

        Raises:
            NotLowered: it is left out.
        """
        if not self.has(i):
            raise NotLowered(f"it has no input {i}")
        return self.values[self.node.inputs[i]]

    def sizes(self, i: int) -> tuple[int, ...]:
        """Returns the sizes of input ``i`` as in ONNX: () for a scalar.

        Raises:
            NotLowered: they are not known before the model runs, or it has no elements.
        """
        return known_sizes(self.value(i))

    def rank(self, i: int) -> int:
        return len(self.sizes(i))

    def data_type(self, i: int) -> DataType:
        """Returns the data type of input ``i``.

        Raises:
            NotLowered: DirectML lacks it.
        """
        return known_data_type(self.value(i))

    def output_sizes(self, i: int = 0) -> tuple[int, ...]:
        """Returns the sizes of output ``i`` as in ONNX, as inferred.

        Raises:
            NotLowered: they are not known.
        """
        return known_sizes(self.values[self.node.outputs[i]])

    def output_type(self, i: int = 0) -> DataType:
        """Returns the data type of output ``i``, as inferred."""
        return known_data_type(self.values[self.node.outputs[i]])

    def is_constant(self, i: int) -> bool:
        return self.has(i) and self.value(i).is_constant

    def constant(self, i: int) -> Array:
        """Returns the elements of input ``i``, which must be constant.

        Raises:
            NotLowered: it is not.
        """
        array = self.value(i).array
        if array is None:
            raise NotLowered(f"its input {i}, {self.value(i).name}, is not constant")
        return array

    def integers(self, i: int) -> list[int]:
        """Returns the elements of input ``i``, which must be constant integers."""
        return [int(each) for each in self.constant(i).reshape(-1)]

    def axis(self, given: int, rank: int) -> int:
        """Returns an axis counted from the first dimension.

        Raises:
            NotLowered: there is no such axis.
        """
        if not -rank <= given < max(rank, 1):
            raise NotLowered(f"its axis {given} is not an axis of {rank} dimensions")
        return given % max(rank, 1)

    # Its tensors in the graph.

    def tensor(self, i: int) -> GraphTensor:
        """Returns input ``i`` as a tensor of the graph, with the sizes it has in ONNX; [1] for a scalar.

        Raises:
            NotLowered: it is left out, of no type of DirectML, of unknown sizes, or has no elements.
        """
        return self.graph.tensor(self.value(i))

    def optional(self, i: int) -> GraphTensor | None:
        """Returns input ``i`` as a tensor of the graph, or None if it is left out."""
        return self.tensor(i) if self.has(i) else None

    def lifted(self, i: int, rank: int = 4) -> GraphTensor:
        """Returns input ``i`` with ones before its sizes, up to a rank. Many operators take rank 4 at lower levels."""
        return lifted(self.tensor(i), rank)

    def filled(self, value: float, data_type: DataType, sizes: Sequence[int]) -> GraphTensor:
        """Returns a constant of one value, spread by strides of 0."""
        array = np.full((1,) * max(len(sizes), 1), value, data_type.dtype)
        return spread(self.graph.constant(array), sizes)

    def desc(self, data_type: DataType, sizes: Sequence[int], strides: Sequence[int] | None = None) -> dict[str, Any]:
        """Returns the desc of a tensor, to be passed to ``emit`` as an output."""
        desc: dict[str, Any] = {"DataType": data_type.name, "Sizes": list(sizes) or [1]}
        return desc if strides is None else {**desc, "Strides": list(strides)}

    def emit(self, operator: str, /, **members: Any) -> GraphTensor:
        """Adds an operator and returns its first output; ``[name]`` of it gives the others.

        Args:
            operator: the operator type without prefix.
            members: the members of its desc struct, with tensors of the graph, or lists of these, as inputs; None
                leaves a member out. Outputs that are not given are derived.

        Raises:
            ContractViolation: the desc is not valid at any level.
        """
        return self.graph.emit(operator, members)

    def cast(self, tensor: GraphTensor, data_type: DataType) -> GraphTensor:
        """Returns a tensor converted to a data type by a node, or itself if it has that type."""
        if tensor.data_type is data_type:
            return tensor
        return self.emit("CAST", InputTensor=tensor, OutputTensor=self.desc(data_type, tensor.sizes))

    def emit_lowest(self, *forms: tuple[str, Mapping[str, Any]]) -> GraphTensor:
        """Adds one of several operators that mean the same: that of the lowest feature level, the first of equals.

        Args:
            forms: the operators, each with its members as ``emit`` takes them.
        """
        operator, members = min(forms, key=lambda form: self.graph.level_of(*form))
        return self.graph.emit(operator, members)


def lifted(tensor: GraphTensor, rank: int) -> GraphTensor:
    """Returns a view with ones before the sizes, up to a rank."""
    missing = rank - len(tensor.sizes)
    if missing <= 0:
        return tensor
    strides = tensor.desc.element_strides
    return tensor.with_strides((1,) * missing + tensor.sizes, (tensor.sizes[0] * strides[0],) * missing + strides)


def relabelled(tensor: GraphTensor, data_type: DataType) -> GraphTensor:
    """Returns a view of the same bytes as elements of another type of the same width."""
    if tensor.data_type is data_type:
        return tensor
    desc = replace(tensor.desc, data_type=data_type)
    return GraphTensor(tensor.graph, tensor.source, desc, tensor.outputs, is_view=True)


def spread(tensor: GraphTensor, sizes: Sequence[int]) -> GraphTensor:
    """Returns a view that repeats elements by strides of 0, aligned at the last dimension as in NumPy."""
    return tensor.broadcast_to(tuple(sizes) or (1,))


def broadcast(tensors: Iterable[GraphTensor], rank: int = 4) -> list[GraphTensor]:
    """Returns views of tensors with common sizes, and ones before these up to a rank."""
    listed = [lifted(tensor, rank) for tensor in tensors]
    try:
        sizes = np.broadcast_shapes(*(tensor.sizes for tensor in listed))
    except ValueError:
        given = " and ".join(str(list(tensor.sizes)) for tensor in listed)
        raise NotLowered(f"the sizes {given} cannot be broadcast") from None
    return [spread(tensor, sizes) for tensor in listed]
