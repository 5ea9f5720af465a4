"""Graphs built in Python: the client's methods, except that each adds a node instead of making a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from ..check import check
from ..desc import Report, read_tensor, show
from ..errors import ContractViolation
from ..graph import INPUT
from ..level import HIGHEST
from ..tensor import Array, BufferTensorDesc, DataType
from ..tensor_names import grouped, ungrouped
from ..wire import Call
from .arrays import ArrayLike, as_array
from .calls import BuiltGraph, checked_name
from .methods import OperatorMethods
from .options import CallOptions


class GraphTensor:
    """A symbolic tensor of a graph under construction: it has a data type and sizes, but no elements.

    Attributes:
        desc: the desc of the tensor.
        source: its name in the graph.
        outputs: the outputs of the node that produces it, by name; empty for an input or a constant.
        graph: the graph it belongs to.
        stand_in: a placeholder array with its data type and sizes, to pass to calls; the elements mean nothing.
    """

    def __init__(self, graph: Graph, source: str, desc: BufferTensorDesc, outputs: dict[str, GraphTensor]) -> None:
        self.desc = desc
        self.source = source
        self.outputs: Mapping[str, GraphTensor] = outputs
        self.graph = graph
        self.stand_in = _stand_in(self, desc)

    @property
    def data_type(self) -> DataType:
        return self.desc.data_type

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.desc.sizes

    def __getitem__(self, output: str) -> GraphTensor:
        """Returns another output of the same node."""
        found = self.outputs.get(output)
        if found is None:
            raise KeyError(f"{output!r} is not an output; available: {', '.join(self.outputs) or 'none'}")
        return found

    def __array__(self, dtype: object = None, copy: object = None) -> Array:
        """Returns the placeholder array; its elements mean nothing."""
        return self.stand_in

    def __repr__(self) -> str:
        return f"<GraphTensor {self.source}: {self.data_type.name} {list(self.sizes)}>"


def _desc_of(data_type: object, sizes: object) -> BufferTensorDesc:
    report = Report()
    name = data_type.name if isinstance(data_type, DataType) else data_type
    listed = list(sizes) if isinstance(sizes, Iterable) else sizes
    found = read_tensor({"DataType": name, "Sizes": listed}, "", report, output=False)
    if found is None:
        raise ContractViolation(report.violations)
    return found.desc


class _Placeholder(np.ndarray[Any, Any]):
    """A one-element placeholder that refers to the tensor it stands for."""

    tensor: GraphTensor


def _stand_in(tensor: GraphTensor, desc: BufferTensorDesc) -> Array:
    placeholder = _Placeholder((), desc.data_type.dtype)
    placeholder.fill(0)
    placeholder.tensor = tensor
    return np.broadcast_to(placeholder, desc.sizes)


def graph_tensor_of(array: Array) -> GraphTensor | None:
    """Returns the tensor that an array is a placeholder of, or None."""
    base: object = array
    while isinstance(base, np.ndarray) and not isinstance(base, _Placeholder):
        base = base.base
    return base.tensor if isinstance(base, _Placeholder) else None


def _with_types(call: Call) -> Mapping[str, Any]:
    """Returns the operator of a call with the 4-bit types of its tensors, whose placeholders are arrays of bytes."""
    types = {name: tensor.data_type for name, array in call.inputs.items() if (tensor := graph_tensor_of(array))}
    if not any(data_type.is_packed for data_type in types.values()):
        return call.operator
    operator = deepcopy(dict(call.operator))
    described = ungrouped(operator.get("desc", {}))
    for name, data_type in types.items():
        desc = described.get(name)
        if data_type.is_packed and isinstance(desc, dict) and desc.get("DataType") == DataType.of(data_type.dtype).name:
            desc["DataType"] = data_type.name
    return operator


class Graph(OperatorMethods[GraphTensor, GraphTensor], BuiltGraph):
    """A graph under construction. Each operator method adds a node and returns its first output.

    Arrays passed as tensors become constants. The graph's outputs are those named with ``output``, or, if none are, all
    tensors that no node reads. Run it with a client: ``client.execute(graph, {"x": array})``.

    >>> graph = Graph()
    >>> x = graph.input("x", "FLOAT32", [1, 8])
    >>> y = graph.activation_relu(graph.gemm(x, weights))
    >>> client.execute(graph, {"x": array}).output

    The methods raise ContractViolation if the operator contract is broken.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, Any]] = {}
        self._tensors: list[GraphTensor] = []
        self._inputs: dict[str, GraphTensor] = {}
        self._outputs: dict[str, str] = {}
        self._used: set[str] = set()
        self._constants: dict[str, Array] = {}

    def input(self, name: str, data_type: DataType | str, sizes: Iterable[int]) -> GraphTensor:
        """Adds an input.

        Args:
            name: the name to pass its array under when the graph runs.
            data_type, sizes: data type and sizes of the tensor, which is contiguous.

        Raises:
            ValueError: the graph already has an input of that name.
            ContractViolation: there is no such data type, or the sizes are not those of a tensor.
        """
        if checked_name(name) in self._inputs:
            raise ValueError(f"the graph already has an input {show(name)}")
        tensor = GraphTensor(self, INPUT + name, _desc_of(data_type, sizes), {})
        self._inputs[name] = tensor
        return tensor

    def constant(self, array: ArrayLike) -> GraphTensor:
        """Adds a constant, to share it between nodes."""
        made = as_array(array, "array")
        if (tensor := graph_tensor_of(made)) is not None:
            raise TypeError(f"{tensor!r} has no elements yet, so it cannot be a constant")
        name = self._name("constant")
        self._nodes[name] = {"constant": ""}
        self._constants[name] = made
        return GraphTensor(self, name, BufferTensorDesc.packed(made), {})

    def output(self, name: str, tensor: GraphTensor) -> None:
        """Names an output.

        Raises:
            ValueError: the tensor is not an output of a node of this graph, or there is already an output of that name.
        """
        if checked_name(name) in self._outputs:
            raise ValueError(f"the graph already has an output {show(name)}")
        if getattr(tensor, "graph", None) is not self or not tensor.outputs:
            raise ValueError(f"{tensor!r} is not an output of a node of this graph")
        self._outputs[name] = tensor.source

    @property
    def constants(self) -> Mapping[str, Array]:
        """See ``BuiltGraph``."""
        return self._constants

    @property
    def inputs(self) -> Mapping[str, BufferTensorDesc]:
        """See ``BuiltGraph``."""
        return {name: tensor.desc for name, tensor in self._inputs.items()}

    @property
    def outputs(self) -> Mapping[str, str]:
        """The outputs by name, each with the source of its tensor."""
        unused = [tensor for tensor in self._tensors if tensor.source not in self._used]
        left = [tensor.source for tensor in unused if tensor.source not in self._outputs.values()]
        if self._outputs:
            # An operator produces all its outputs, so the unused ones of a node in use are outputs too.
            left = [source for source in left if self._gives_others(source)]
        return {**self._outputs, **{source: source for source in left}}

    def _gives_others(self, source: str) -> bool:
        node = source.rpartition(".")[0]
        needed = {*self._used, *self._outputs.values()}
        return any(each.rpartition(".")[0] == node for each in needed)

    def to_json(self) -> dict[str, Any]:
        """See ``BuiltGraph``."""
        return {"nodes": dict(self._nodes), "inputs": list(self._inputs), "outputs": dict(self.outputs)}

    def _run(self, call: Call, options: CallOptions) -> GraphTensor:
        if options:
            raise TypeError(f"{', '.join(options)} given; pass options to the call that runs the graph")
        operator = _with_types(call)
        plan = check(operator, HIGHEST)
        sources = {name: self._source(array) for name, array in call.inputs.items()}
        self._used.update(sources.values())
        name = self._name(plan.operator.name.lower())
        self._nodes[name] = {**operator, "inputs": grouped(sources)}
        outputs: dict[str, GraphTensor] = {}
        for tensor, desc in plan.outputs.items():
            outputs[tensor] = GraphTensor(self, f"{name}.{tensor}", desc, outputs)
        self._tensors += outputs.values()
        return next(iter(outputs.values()))

    _run_pooling = _run

    def _source(self, array: Array) -> str:
        tensor = graph_tensor_of(array)
        if tensor is None:
            return self.constant(array).source
        if tensor.graph is not self:
            raise ValueError(f"{tensor!r} belongs to another graph")
        if array is not tensor.stand_in:
            raise TypeError(f"{tensor!r} was changed outside of the graph; only its nodes can operate on tensors")
        return tensor.source

    def _name(self, kind: str) -> str:
        number = 1 + sum(name == kind or name.startswith(f"{kind}_") for name in self._nodes)
        name = kind if number == 1 else f"{kind}_{number}"
        while name in self._nodes:
            name += "_"
        return name
