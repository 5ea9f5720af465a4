"""Graphs built in Python: the client's methods, except that each adds a node instead of making a call."""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..check import Plan, check
from ..desc import Report, show
from ..graph import CONSTANT, INPUT, as_named, check_graph
from ..graph_files import Weights, parse_graph, read_file_constants, request_level, write_graph
from ..level import HIGHEST
from ..tensor import Array, BufferTensorDesc, DataType
from ..tensor_desc import read_tensor
from ..tensor_names import grouped, ungrouped
from ..wire import Call, constant_bytes
from .arrays import ArrayLike, DTypeLike, as_array, is_single, layout_of
from .calls import BuiltGraph, checked_name
from .graph_tensors import GraphTensor, NodeMethods, desc_of, graph_tensor_of
from .options import CallOptions


def with_layouts(call: Call) -> Mapping[str, Any]:
    """Returns the operator of a call with the data types and layouts of its tensors, which placeholders do not have."""
    operator = deepcopy(dict(call.operator))
    described = ungrouped(operator.get("desc", {}))
    for name, array in call.inputs.items():
        tensor, desc = graph_tensor_of(array), described.get(name)
        if tensor is not None and isinstance(desc, dict):
            _lay_out(desc.get("Desc", desc), tensor, name)
    return operator


def _lay_out(desc: dict[str, Any], tensor: GraphTensor, name: str) -> None:
    """Gives the desc of an input the 4-bit type, the strides and the total size of its tensor."""
    given, data_type = tensor.desc, tensor.data_type
    if data_type.is_packed and desc.get("DataType") == DataType.of(data_type.dtype).name:
        desc["DataType"] = data_type.name
    if given.strides is not None:
        desc.setdefault("Strides", [*given.strides])
    if desc.get("Strides") is not None and [*desc["Strides"]] != [*given.element_strides]:
        said = f"{name} is {tensor!r}, but its desc has the strides {show(desc['Strides'])}"
        raise ValueError(f"{said}; with_strides returns a tensor with other strides")
    if given.total_size_in_bytes != given.minimum_size_in_bytes:
        desc.setdefault("TotalTensorSizeInBytes", given.total_size_in_bytes)


class Graph(NodeMethods, BuiltGraph):
    """A graph under construction. Each operator method adds a node and returns its first output.

    Arrays passed as tensors become constants. The graph's outputs are those named with ``output``, or, if none are, all
    tensors that no node reads. Run it with a client: ``opwire.local().execute(graph, ...)``.

    >>> graph = Graph()
    >>> x = graph.input("x", "FLOAT32", [1, 8])
    >>> y = graph.activation_relu(graph.gemm(x, weights))
    >>> opwire.local().execute(graph, {"x": array}).output

    The methods raise ContractViolation if the operator contract is broken.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, Any]] = {}
        self._tensors: list[GraphTensor] = []
        self._inputs: dict[str, GraphTensor] = {}
        self._outputs: dict[str, str] = {}
        self._constants: dict[str, Array] = {}

    def input(self, name: str, data_type: DataType | DTypeLike | str, sizes: Iterable[int]) -> GraphTensor:
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
        tensor = GraphTensor(self, INPUT + name, desc_of(data_type, sizes), {})
        self._inputs[name] = tensor
        return tensor

    def constant(self, array: ArrayLike) -> GraphTensor:
        """Adds a constant, to share it between nodes."""
        made = as_array(array, "array")
        if (tensor := graph_tensor_of(made)) is not None:
            raise TypeError(f"{tensor!r} has no elements yet, so it cannot be a constant")
        name, layout = self._name("constant"), layout_of(made)
        self._nodes[name] = {"constant": ""}
        self._constants[name] = made if layout is None else _buffer(made, layout)
        return GraphTensor(self, name, layout or BufferTensorDesc.packed(made), {})

    def output(self, name: str, tensor: GraphTensor) -> None:
        """Names an output.

        Raises:
            ValueError: the tensor is not an output of a node of this graph, or there is already an output of that name.
        """
        if checked_name(name) in self._outputs:
            raise ValueError(f"the graph already has an output {show(name)}")
        if getattr(tensor, "graph", None) is not self or not (tensor.outputs or tensor.is_view):
            raise ValueError(f"{tensor!r} is not an output of a node of this graph")
        # Only a node can give the bytes of another tensor other sizes or strides.
        self._outputs[name] = (self.element_wise_identity(tensor) if tensor.is_view else tensor).source

    @property
    def nodes(self) -> Mapping[str, Mapping[str, Any]]:
        """The nodes by name, as in the JSON of the graph."""
        return self._nodes

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
        taken = {*self._read(), *self._outputs.values()}
        left = [tensor.source for tensor in self._tensors if tensor.source not in taken]
        if self._outputs:
            # An operator produces all its outputs, so the unused ones of a node in use are outputs too.
            needed = {source.rpartition(".")[0] for source in taken}
            left = [source for source in left if source.rpartition(".")[0] in needed]
        outputs = dict(self._outputs)
        for source in left:
            outputs[unused(source, outputs)] = source
        return outputs

    def _read(self) -> Iterator[str]:
        """Yields the sources that nodes read."""
        for node in self._nodes.values():
            yield from ungrouped(node.get("inputs", {})).values()

    @contextmanager
    def undone_on_error(self) -> Generator[None]:
        """See ``NodeMethods``."""
        nodes, tensors = len(self._nodes), len(self._tensors)
        try:
            yield
        except BaseException:
            for name in list(self._nodes)[nodes:]:
                del self._nodes[name]
                self._constants.pop(name, None)
            del self._tensors[tensors:]
            raise

    def save(self, path: str | PathLike[str], *, weights: Weights = "inside") -> None:
        """Writes the graph to a JSON file that ``Graph.load``, ``opwire run``, ``validate`` and ``graph put`` read.

        Args:
            path: the path of the file.
            weights: "inside" writes the constants to the file itself, as base64; "beside" writes their bytes to files
                in a folder beside it, which is called like the file, followed by ``.weights``.

        Raises:
            OSError: a file cannot be written.
        """
        constants = {name: constant_bytes(array) for name, array in self._constants.items()}
        write_graph(Path(path), self.to_json(), constants, weights)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Graph:
        """Reads a graph in either form from a JSON file, by itself or in a request, with its constants.

        Inputs that the graph does not declare have the descs of the nodes that read them.

        Raises:
            ContractViolation: the graph is not valid at its feature level, by default the highest.
            OSError: the file, or one that it refers to, cannot be read.
            RequestError: the file does not contain a graph, or is malformed.
        """
        request, files = parse_graph(Path(path).read_bytes(), Path(path).parent)
        level, strict = request_level(request), request.strict
        plan = check_graph(request.operator, level, strict=strict, pointer=request.plan_pointer)
        constants = read_file_constants(plan, request, files).values()
        graph, named = cls(), as_named(request.operator)
        graph._fill(named, check_graph(named, level, strict=strict), constants)
        return graph

    def _fill(self, named: Mapping[str, Any], plan: Plan, constants: Iterable[memoryview]) -> None:
        """Takes over the nodes, inputs, outputs and constants of a checked graph."""
        for name, data in zip((name for name in plan.inputs if name.startswith(CONSTANT)), constants, strict=True):
            self._constants[name.removeprefix(CONSTANT)] = _typed(data, plan.inputs[name])
        self._nodes.update(named["nodes"])
        self._outputs.update(named["outputs"])
        for name in named["inputs"]:
            if name in plan.inputs:
                self._inputs[name] = GraphTensor(self, INPUT + name, plan.inputs[name], {})
        for step in plan.attributes.steps:
            outputs: dict[str, GraphTensor] = {}
            for slot, desc in step.plan.outputs.items():
                outputs[slot] = GraphTensor(self, f"{step.name}.{slot}", desc, outputs)
            self._tensors += outputs.values()

    def to_json(self) -> dict[str, Any]:
        """See ``BuiltGraph``."""
        return {"nodes": dict(self._nodes), "inputs": self._listed_inputs(), "outputs": dict(self.outputs)}

    def _listed_inputs(self) -> list[str] | dict[str, Any]:
        """Returns the names of the inputs or, if nodes read views of some, the descs of these by name."""
        declared = {name for name, desc in self._readings() if not _is_read_as(self._inputs[name].desc, desc)}
        if not declared:
            return list(self._inputs)
        return {name: tensor.desc.to_json() if name in declared else None for name, tensor in self._inputs.items()}

    def _readings(self) -> Iterator[tuple[str, object]]:
        """Yields the names of inputs that nodes read, each with the desc that the node gives it."""
        for node in self._nodes.values():
            read = {at: each for at, each in ungrouped(node.get("inputs", {})).items() if each.startswith(INPUT)}
            descs = ungrouped(node["desc"]) if read else {}
            yield from ((source.removeprefix(INPUT), descs[at]) for at, source in read.items())

    def _run(self, call: Call, options: CallOptions) -> GraphTensor:
        if options:
            raise TypeError(f"{', '.join(options)} given; pass options to the call that runs the graph")
        operator = with_layouts(call)
        plan = check(operator, HIGHEST)
        sources = {name: self._source(array) for name, array in call.inputs.items()}
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
        if tensor is None and is_single(array):
            return self.of_number(array.reshape(-1)[0].item(), DataType.of(array.dtype), array.ndim).source
        if tensor is None:
            return self.constant(array).source
        if tensor.graph is not self:
            raise ValueError(f"{tensor!r} belongs to another graph")
        if array is not tensor.stand_in:
            raise TypeError(f"{tensor!r} was changed outside of the graph; use its own methods, such as reshape")
        return tensor.source

    def _name(self, kind: str) -> str:
        number = 1 + sum(name == kind or name.startswith(f"{kind}_") for name in self._nodes)
        return unused(kind if number == 1 else f"{kind}_{number}", self._nodes)


def _is_read_as(desc: BufferTensorDesc, given: object) -> bool:
    """Returns whether a desc, given as JSON, describes the elements of a tensor as its own does."""
    read = read_tensor(given, "", Report(), output=False)
    assert read is not None  # its node was checked
    mine, theirs = ((each.data_type, each.sizes, each.element_strides) for each in (desc, read.desc))
    return mine == theirs


def _buffer(array: Array, layout: BufferTensorDesc) -> Array:
    """Returns the elements of an array as they lie in memory, in one dimension."""
    written = layout.lay_out(array)
    assert written is not None  # elements that share an address are one in an array
    return _typed(written[0].data, layout)


def _typed(data: memoryview, desc: BufferTensorDesc) -> Array:
    """Returns the bytes of a constant as elements in one dimension; those of 4 bits stay bytes."""
    array: Array = np.frombuffer(data, np.uint8)
    return array if desc.data_type.is_packed else array.view(desc.data_type.dtype)


def unused(name: str, used: Container[str]) -> str:
    """Returns a name that is not in use, with underscores after it if needed."""
    while name in used:
        name += "_"
    return name
