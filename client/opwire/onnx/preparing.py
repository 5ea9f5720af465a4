"""Prepares a model: sizes are inferred, constants folded, functions and constant branches replaced by their nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from pathlib import Path

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TensorShapeProto, TypeProto

from ..desc import show
from ..tensor import Array
from .errors import ModelError
from .functions import Opsets, branch, concatenated, expanded, opsets_of, schema_function
from .host import evaluate
from .lower import is_lowered, output_types
from .nodes import UNVERSIONED, ModelNode, captured, make_node
from .reading import MOST_NODES, read_tensor, subgraphs
from .types import element_count, sizes_of, type_text
from .values import Recipe, Value, constant_value

MOST_FOLDED = 4096
"""The most elements of a constant that is computed before the model runs; larger ones are computed with it."""

Dimensions = Mapping[str, int]


@dataclass(slots=True, eq=False)
class Prepared:
    """A model after preparation.

    Attributes:
        nodes: the nodes that are left, each after those that it reads from, with their operator sets.
        values: the tensors by name.
        inputs, outputs: the names of the model's inputs and outputs.
    """

    nodes: list[tuple[ModelNode, Opsets]] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


class Preparation:
    """The preparation of one model."""

    def __init__(
        self,
        model: ModelProto,
        folder: Path | None,
        dimensions: dict[str, int],
        shapes: Mapping[str, Sequence[int]],
        most_nodes: int = MOST_NODES,
        poll: Callable[[], object] = lambda: None,
    ) -> None:
        self.model = model
        self.folder = folder
        self.dimensions = dimensions
        self.shapes = shapes
        self.most_nodes = most_nodes
        self.poll = poll
        """Called before work on each node; may raise to abandon all of it."""
        self.implied: dict[str, int] = {}
        self.sequences: dict[str, list[str]] = {}
        """The members of sequences that the model makes of tensors."""
        self.opsets = {"" if each.domain == "ai.onnx" else each.domain: each.version for each in model.opset_import}
        self.functions = {(each.domain, each.name): each for each in model.functions}
        self.prepared = Prepared()
        self.count = 0
        self.origins: dict[ModelNode, list[ModelNode]] = {}
        """The nodes of the model that a node is part of, where ONNX defines these by others: the outermost first."""

    def run(self) -> Prepared:
        graph, prepared = self.model.graph, self.prepared
        for tensor in graph.initializer:
            prepared.values[tensor.name] = constant_value(
                tensor.name, read_tensor(tensor, self.folder), is_initializer=True
            )
        if graph.sparse_initializer:
            raise ModelError(
                f"the initializer {show(graph.sparse_initializer[0].values.name)} is sparse, which opwire does not read"
            )
        self._inputs(graph)
        prepared.nodes = self.expand(_ordered(graph), self.opsets)
        prepared.outputs = [each.name for each in graph.output]
        for name in prepared.outputs:
            if name not in prepared.values:
                raise ModelError(f"the output {show(name)} is not a tensor of the model")
        return prepared

    def _inputs(self, graph: GraphProto) -> None:
        used: set[str] = set()
        for info in graph.input:
            if info.name in self.prepared.values:
                continue  # an initializer with that name is its default
            value = Value(info.name, self._bound(info.name, info.type, used))
            self.prepared.values[info.name] = value
            self.prepared.inputs.append(info.name)
        require_input(self.shapes, self.prepared.inputs)
        self._require_known()
        unknown = self.dimensions.keys() - used
        if unknown:
            named = {each.dim_param for info in graph.input for each in info.type.tensor_type.shape.dim} - {""}
            known = f"its inputs have the dimensions {', '.join(sorted(named))}" if named else "its inputs name none"
            raise ModelError(f"the model has no dimension {show(min(unknown))}; {known}")

    def _require_known(self) -> None:
        for name in self.prepared.inputs:
            value = self.prepared.values[name]
            if value.is_tensor and sizes_of(value.type) is None:
                raise ModelError(f"the input {show(name)} is {type_text(value.type)}; {_how_to_bind(value)}")

    def _bound(self, name: str, given: TypeProto, used: set[str]) -> TypeProto:
        """Returns the type of an input with its dimensions bound."""
        bound = TypeProto()
        bound.CopyFrom(given)
        for axis, dimension in enumerate(bound.tensor_type.shape.dim):
            for key in (dimension.dim_param, f"{name}:{axis}"):
                if key and key in self.dimensions and _is_open(dimension):
                    used.add(key)
                    dimension.dim_value = self.dimensions[key]
        self._bind_like(name, bound)
        return bound

    def _bind_like(self, name: str, bound: TypeProto) -> None:
        """Gives dimensions that are left the sizes of an array, and all dimensions of their names with them."""
        shape = self.shapes.get(name, ())
        dimensions = bound.tensor_type.shape.dim
        if len(shape) != len(dimensions):
            return
        for size, dimension in zip(shape, dimensions, strict=True):
            if not dimension.HasField("dim_value"):
                dimension.dim_value = (
                    self.implied.setdefault(dimension.dim_param, size) if dimension.dim_param else size
                )

    def expand(self, protos: Iterable[NodeProto], opsets: Opsets) -> list[tuple[ModelNode, Opsets]]:
        """Prepares nodes, and returns those that are left."""
        left: list[tuple[ModelNode, Opsets]] = []
        for proto in protos:
            self.poll()
            self.count += 1
            if self.count > self.most_nodes:
                most = self.most_nodes
                raise ModelError(f"the model has more than {most} nodes with those of its functions, opwire's limit")
            left += self._node(make_node(proto, opsets, self.count), opsets)
        return left

    def replaced(self, node: ModelNode, protos: Iterable[NodeProto], opsets: Opsets) -> list[tuple[ModelNode, Opsets]]:
        """Prepares the nodes that ONNX defines an operator by, and returns those that are left."""
        left = self.expand(protos, opsets)
        for part, _ in left:
            self.origins[part] = [*self.origins.get(node, ()), node, *self.origins.get(part, ())]
        return left

    def body_of(self, node: ModelNode, opsets: Opsets) -> tuple[Iterator[NodeProto], Opsets] | None:
        """Returns the nodes that ONNX defines an operator by, with their operator sets, or None.

        Loops are none for an operator that has a lowering: its reason says more.
        """
        known = self.prepared.values
        types = [known[name].type if name in known else None for name in node.inputs]
        function = schema_function(node, types, opsets.get(node.domain, 1))
        if function is None or (is_lowered(node) and any(any(subgraphs(each.attribute)) for each in function.node)):
            return None
        return expanded(node, function), opsets_of(function, opsets)

    def _node(self, node: ModelNode, opsets: Opsets) -> list[tuple[ModelNode, Opsets]]:
        values = self.prepared.values
        for name in node.reads():
            if name not in values:
                raise ModelError(f"{node} reads {show(name)}, which is not a tensor of the model, or comes later")
        for name in filter(None, node.outputs):
            if name in values:
                raise ModelError(f"{node} writes {show(name)}, which is already a tensor of the model")
        function = self.functions.get((node.proto.domain, node.proto.op_type))
        if function is not None:
            return self.expand(expanded(node, function), opsets_of(function, opsets))
        if node.operator == "Constant":
            self._constant(node)
            return []
        if node.operator == "If" and any(node.inputs) and (taken := self._taken(node)) is not None:
            return self.expand(branch(node, taken), opsets)
        if node.operator == "SequenceConstruct":
            self.sequences[node.outputs[0]] = node.inputs
        if node.operator == "ConcatFromSequence" and (members := self.sequences.get(node.inputs[0])):
            return self.expand(concatenated(node, members), opsets)
        if not is_lowered(node) and (body := self.body_of(node, opsets)) is not None:
            return self.replaced(node, *body)
        node = self._as_cast(node, opsets)
        self._infer(node, opsets)
        return [] if self._fold(node, opsets) or self._hold_empty(node) else [(node, opsets)]

    def _as_cast(self, node: ModelNode, opsets: Opsets) -> ModelNode:
        """Returns a Cast in place of a CastLike of a constant, which takes no more than a type from its other input."""
        values = self.prepared.values
        if node.operator != "CastLike" or len(node.inputs) < 2 or not all(node.inputs):
            return node
        data, like = (values[name] for name in node.inputs[:2])
        if not data.is_constant:
            return node
        to = like.element_type
        proto = onnx.helper.make_node("Cast", node.inputs[:1], node.outputs, node.name, to=to)
        return make_node(proto, opsets, self.count) if to else node

    def _hold_empty(self, node: ModelNode) -> bool:
        """Makes outputs without elements constants, and returns whether nothing is left to run."""
        outputs = [self.prepared.values[name] for name in node.outputs if name]
        empty = [each for each in outputs if each.data_type is not None and 0 in (each.sizes or ())]
        for each in empty:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(each.element_type)
            self._hold({each.name: np.zeros(each.sizes or (), dtype)})
        return len(empty) == len(outputs) > 0

    def _constant(self, node: ModelNode) -> None:
        given = {each.name for each in node.proto.attribute}
        if len(given) != 1:
            raise ModelError(f"{node} has the attributes {', '.join(sorted(given)) or 'none'}; it takes exactly one")
        (name,) = given
        value = node.attributes[name]
        if name == "sparse_value":
            raise ModelError(f"{node} is sparse, which opwire does not read")
        if isinstance(value, TensorProto):
            array = read_tensor(value, self.folder)
        else:
            dtype = {"float": np.float32, "int": np.int64, "string": object}[name.removeprefix("value_").rstrip("s")]
            array = np.asarray(value, dtype)
        self.prepared.values[node.outputs[0]] = constant_value(node.outputs[0], array)

    def _taken(self, node: ModelNode) -> GraphProto | None:
        """Returns the branch that an ``If`` takes, or None if its condition is not constant."""
        condition = self.prepared.values[node.inputs[0]].array
        if condition is None or condition.size != 1:
            return None
        graph = node.attributes["then_branch" if condition.item() else "else_branch"]
        return graph if isinstance(graph, GraphProto) else None

    def _infer(self, node: ModelNode, opsets: Opsets) -> None:
        """Adds the outputs of a node to the tensors, with their types as far as they can be inferred."""
        for name, found in self._types(node, opsets).items():
            self.prepared.values[name] = Value(name, found)

    def _types(self, node: ModelNode, opsets: Opsets) -> Mapping[str, TypeProto | None]:
        names = list(filter(None, node.outputs))
        unknown: dict[str, TypeProto | None] = dict.fromkeys(names)
        given = {name: self.prepared.values[name] for name in node.reads()}
        if node.schema is None:
            if node.domain not in UNVERSIONED and not is_lowered(node):
                raise ModelError(f"{node} is unknown: neither ONNX nor the model defines the operator")
            return unknown | output_types(node, given)
        if not _is_inferred(node):
            return unknown | output_types(node, given)
        if any(value.type is None for value in given.values()):
            return unknown
        types = {name: value.type for name, value in given.items() if value.type is not None}
        small = {name: value.array for name, value in given.items() if _is_small(value)}
        data = {name: onnx.numpy_helper.from_array(array, name) for name, array in small.items() if array is not None}
        imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
        try:
            found = onnx.shape_inference.infer_node_outputs(node.schema, node.proto, types, data, None, imports)
        except Exception as error:  # C++ raises classes that the package does not name
            if given and all(value.is_constant and _is_small(value) for value in given.values()):
                return unknown  # what ONNX's inference refuses may still be computed
            described = ", ".join(str(value) for value in given.values())
            message = " ".join(str(error).split())
            raise ModelError(f"{node} cannot take {described or 'no input'}: {message}") from None
        if node.operator == "GatherND" and all(value.sizes is not None for value in given.values()):
            # ONNX leaves the rank open where single elements are gathered to a scalar, and only there.
            for each in found.values():
                each.tensor_type.shape.SetInParent()
        return unknown | {name: found[name] for name in names if name in found}

    def _fold(self, node: ModelNode, opsets: Opsets) -> bool:
        """Computes the outputs of a node if they are constant and small, and returns whether nothing is left to run.

        Floats are computed only where an operator takes them as attributes; elsewhere they are computed as all tensors.
        """
        values = self.prepared.values
        outputs = [values[name] for name in node.outputs if name]
        if node.operator in ("Shape", "Size") and (sizes := values[node.inputs[0]].sizes) is not None:
            seen = np.broadcast_to(np.zeros((), np.uint8), sizes)
            self._hold(evaluate(node, {node.inputs[0]: seen}, opsets))
            return True
        given = [values[name] for name in node.reads()]
        is_foldable = all(each.is_constant for each in given) and all(
            _is_small(each) or (each.type is None and node.schema is not None) for each in outputs
        )
        if not is_foldable or not outputs or _is_unbounded(node) or not all(each.data_type for each in given):
            return False
        recipe = Recipe(node, opsets, values)
        if any(each.data_type is not None and each.data_type.is_float for each in outputs):
            for each in outputs:
                each.recipe = recipe
            return False
        try:
            self._hold(recipe.compute())
        except ModelError:  # the onnx package lacks the operator, which DirectML may have
            return False
        return True

    def _hold(self, arrays: Mapping[str, Array]) -> None:
        for name, array in arrays.items():
            self.prepared.values[name] = constant_value(name, np.asarray(array))


RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Operators whose results differ from run to run."""


def _is_unbounded(node: ModelNode) -> bool:
    """Returns whether a node differs from run to run, or may run for any time although its results are small."""
    return node.proto.op_type in RANDOM or any(subgraphs(node.proto.attribute))


def require_input(given: Iterable[str], inputs: Collection[str]) -> None:
    """Refuses tensors that are not inputs of the model.

    Raises:
        ModelError: one is not.
    """
    unknown = {*given}.difference(inputs)
    if unknown:
        raise ModelError(f"the model has no input {show(min(unknown))}; it takes {', '.join(inputs) or 'none'}")


def _is_open(dimension: TensorShapeProto.Dimension) -> bool:
    """Returns whether a dimension has no size; some tools write -1 for that."""
    return not dimension.HasField("dim_value") or dimension.dim_value < 0


def _how_to_bind(value: Value) -> str:
    """Says which dimensions of an input are to be given, and how."""
    assert value.type is not None
    if not value.type.tensor_type.HasField("shape"):
        return "its rank must be known"
    dimensions = value.type.tensor_type.shape.dim
    missing = [
        f"{each.dim_param or f'{value.name}:{axis}'}=SIZE" for axis, each in enumerate(dimensions) if _is_open(each)
    ]
    return f"give the sizes of its dimensions: {', '.join(missing)}" if missing else "sizes are at least 0"


def _is_inferred(node: ModelNode) -> bool:
    """Returns whether the onnx package infers the types of a node's outputs, and rightly.

    It refuses deprecated operators, which models of their time have. It counts windows of pooling that start beyond the
    input before version 22, both sides of a spectrum where the node does not say that it wants one, the default, and
    the padding of outputs beside the padding that is found for them.
    """
    assert node.schema is not None
    if node.operator == "ConvTranspose":
        is_found = node.attributes.get("auto_pad", "NOTSET").startswith("SAME")
        return not is_found or not any(node.attributes.get("output_padding", ()))
    if node.operator in ("AveragePool", "LpPool", "MaxPool"):
        return node.since >= 22 or not node.attributes.get("ceil_mode", 0)
    if node.operator == "STFT":
        return any(each.name == "onesided" for each in node.proto.attribute)
    return not node.schema.deprecated


def _is_small(value: Value) -> bool:
    """Returns whether a tensor is known to have few elements."""
    return value.sizes is not None and element_count(value.sizes) <= MOST_FOLDED


def _ordered(graph: GraphProto) -> list[NodeProto]:
    """Returns the nodes of a graph, each after those that it reads from.

    Raises:
        ModelError: they form a cycle.
    """
    producers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    waiting: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for i, node in enumerate(graph.node):
        before = {producers[name] for name in (*node.input, *captured(node)) if name in producers}
        waiting[i] = len(before)
        for each in before:
            readers.setdefault(each, []).append(i)
    ready = [i for i, count in waiting.items() if not count]
    heapify(ready)
    ordered: list[NodeProto] = []
    while ready:
        i = heappop(ready)
        ordered.append(graph.node[i])
        for reader in readers.get(i, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                heappush(ready, reader)
    if len(ordered) < len(graph.node):
        stuck = next(i for i, count in waiting.items() if count)
        raise ModelError(f"node {graph.node[stuck].name or graph.node[stuck].op_type} is part of a cycle")
    return ordered
