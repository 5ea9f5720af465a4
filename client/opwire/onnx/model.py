"""A model: its nodes with their operators and feature levels, its graph, and how to run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from onnx import ModelProto, TensorProto
from onnx.external_data_helper import load_external_data_for_model
from onnx.helper import tensor_dtype_to_np_dtype

from ..check import read_level
from ..client import Graph, local
from ..client.arrays import ArrayLike
from ..client.exporting import write_dxdispatch
from ..graph import GRAPHS_FROM
from ..level import FeatureLevel
from ..tensor import Array
from .errors import ModelError
from .graph import ModelGraph
from .lower import lower
from .nodes import ModelNode, make_node
from .preparing import Dimensions, Preparation, Prepared, require_input
from .provider import Provider
from .reading import MOST_NODES, Source, read_model
from .report import LevelReport
from .translation import Stage, Translation, translate
from .uses import Node
from .values import Value, storable


class Runner(Protocol):
    """Runs graphs: ``opwire.local()`` or a client."""

    def execute(self, operator: Any, inputs: Any, /) -> Any: ...


@dataclass(frozen=True, slots=True, eq=False)
class Isolated:
    """A node by itself.

    Attributes:
        graph: the graph of its operators.
        feeds: the input of the graph for each tensor of the model that the node reads, without constants.
        results: the output of the graph for each tensor that it produces.
    """

    graph: Graph
    feeds: Mapping[str, str]
    results: Mapping[str, str]


class Model:
    """An ONNX model as DirectML operators."""

    def __init__(self, source: Source, preparation: Preparation, prepared: Prepared) -> None:
        self._source = source
        self._preparation = preparation
        self._prepared = prepared

    @cached_property
    def _translation(self) -> Translation:
        return translate(self._prepared, self._preparation)

    @cached_property
    def _whole(self) -> Translation:
        return translate(self._prepared, self._preparation, keep="all")

    def read_proto(self) -> ModelProto:
        """Returns the model as it was given, with its external data.

        Raises:
            OSError: the file cannot be read any more.
        """
        model, folder = read_model(self._source)
        if folder is not None:
            load_external_data_for_model(model, str(folder))
        return model

    @property
    def inputs(self) -> Mapping[str, Value]:
        """The inputs by name."""
        return {name: self._prepared.values[name] for name in self._prepared.inputs}

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return list(self._prepared.outputs)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that run: without those that are computed before, or that no output depends on."""
        return self._nodes

    @cached_property
    def _nodes(self) -> tuple[Node, ...]:
        def provider() -> Provider:
            self._preparation.poll()
            return self._provider

        return tuple(Node(each, provider) for each in self._translation.placed)

    @cached_property
    def _provider(self) -> Provider:
        placed, preparation = self._translation.placed, self._preparation
        opsets = {each.node: each.opsets for each in placed}

        def body(node: ModelNode) -> list[ModelNode] | None:
            found = preparation.body_of(node, opsets.get(node, {node.domain: node.since}))
            return None if found is None else [make_node(proto, found[1], i) for i, proto in enumerate(found[0])]

        nodes = [each.node for each in placed]
        return Provider(nodes, self._prepared.values, self.inputs, body, preparation.origins)

    @property
    def level(self) -> FeatureLevel:
        """The lowest level that has graphs and the operators of all nodes that DirectML runs.

        The weights count as inputs that DirectML owns, as ONNX Runtime passes them, rather than as constants.
        """
        return max(GRAPHS_FROM, *(node.level for node in self.nodes if node.level is not None), GRAPHS_FROM)

    @property
    def is_graph(self) -> bool:
        """Whether the model is one graph: whether all its nodes have DirectML operators, and it is not too large."""
        return len(self._translation.stages) == 1 and not self._translation.stages[0].host

    @property
    def graph(self) -> Graph:
        """The model as one graph.

        Raises:
            ModelError: some of its nodes stay on the CPU, or it is too large for one graph.
        """
        stages = self._translation.stages
        for stage in stages:
            for host in stage.host:
                raise ModelError(f"{host.node} has no DirectML operators, so the model is no graph: {host.reason}")
        if len(stages) != 1:
            raise ModelError("the model has more nodes than a graph may have")
        return stages[0].graph

    def isolated(self, node: Node, attributes: Mapping[str, Any] | None = None) -> Isolated:
        """Returns the graph of a single node that has DirectML operators.

        Args:
            node: the node.
            attributes: attributes to take in place of its own.

        Raises:
            NotLowered: DirectML has no operators for the node with these attributes.
        """
        graph, values = ModelGraph(), self._prepared.values
        given = node.model_node
        changed = replace(given, attributes={**given.attributes, **attributes}) if attributes else given
        tensors = lower(changed, graph, values)
        results = {
            name: graph.add_output(name, tensor, exact=False)
            for name, tensor in zip(node.outputs, tensors, strict=False)
            if name and tensor is not None
        }
        graph.prune()
        return Isolated(graph, graph.feeds(), results)

    def run_node(self, node: Node, tensors: Mapping[str, Any], runner: Runner) -> dict[str, Any]:
        """Runs a single node and returns its outputs by name.

        Args:
            node: the node.
            tensors: the tensors that it reads, without constants, as arrays of their types in the model.
            runner: what runs its graph.

        Raises:
            ModelError: it cannot be evaluated.
        """
        if node.host is not None:
            return node.host.run({name: self._array(name, tensors) for name in node.host.inputs})
        alone = self.isolated(node)
        feeds = {each: self._stored(self._array(name, tensors)) for name, each in alone.feeds.items()}
        outputs = runner.execute(alone.graph, feeds).outputs
        return {name: self._as_model(name, outputs[each]) for name, each in alone.results.items()}

    def value(self, name: str) -> Value:
        """Returns a tensor of the model.

        Raises:
            KeyError: it has none of that name.
        """
        return self._prepared.values[name]

    def report(self, level: FeatureLevel | str | int | None = None) -> LevelReport:
        """Returns what the model needs, and what of it a feature level lacks.

        Raises:
            ContractViolation: there is no such level.
        """
        return LevelReport(self, None if level is None else read_level(level, ""))

    def export(self, folder: str | PathLike[str], inputs: Mapping[str, Any] | None = None) -> Path:
        """Writes the model as a DxDispatch model, with its constants in files, and returns its path.

        Args:
            folder: the folder to write to; it is made if it is missing.
            inputs: values of its inputs; those without are zeros.

        Raises:
            ModelError: some of its nodes have no DirectML operators, or an input is of another type or sizes.
            OSError: a file cannot be written.
        """
        graph = self.graph
        given = {name: self._checked(array, self.inputs[name].name) for name, array in (inputs or {}).items()}
        names = self._translation.stages[0].graph.feeds()
        stored = {names[name]: self._stored(array) for name, array in given.items() if name in names}
        return write_dxdispatch(graph, stored, Path(folder))

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        all: bool = False,  # noqa: A002  # named as the option of the command
        runner: Runner | None = None,
    ) -> dict[str, Array]:
        """Runs the model and returns its outputs by name.

        Args:
            inputs: the inputs by name, as arrays of their type and sizes.
            all: whether to return every tensor that a node produces.
            runner: what runs the graphs; by default ``opwire.local()``.

        Raises:
            ModelError: an input is missing, unknown, or of another type or sizes; or a node cannot be evaluated.
        """
        translation = self._whole if all else self._translation
        tensors = dict(self._given(inputs))
        for stage in translation.stages:
            tensors |= self._run(stage, tensors, self._local if runner is None else runner)
        wanted = translation.produced() if all else self._prepared.outputs
        return {name: self._array(name, tensors) for name in wanted}

    @cached_property
    def _local(self) -> Runner:
        """What runs the graphs by default. It keeps them prepared from run to run."""
        return local()

    @cached_property
    def _forms(self) -> dict[str, Form]:
        """The forms of the tensors that enter or leave graphs, by name, as far as they have been needed."""
        return {}

    def _form(self, name: str) -> Form:
        found = self._forms.get(name)
        if found is None:
            found = self._forms[name] = Form.of(self._prepared.values[name])
        return found

    def _run(self, stage: Stage, tensors: dict[str, Any], runner: Runner) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if stage.outputs:
            feeds = {each: self._stored(self._array(name, tensors)) for name, each in stage.feeds.items()}
            result = runner.execute(stage.fixed, feeds)
            found = {name: self._as_model(name, result.outputs[each]) for name, each in stage.outputs.items()}
        for host in stage.host:
            known = {**tensors, **found}
            found |= host.run({name: self._array(name, known) for name in host.inputs})
        return found

    def _array(self, name: str, tensors: Mapping[str, Any]) -> Any:
        if name in tensors:
            return tensors[name]
        array = self._prepared.values[name].array
        assert array is not None  # what is neither produced nor given is constant
        return array

    @staticmethod
    def _stored(array: Array) -> Array:
        stored = storable(np.asarray(array))
        assert stored is not None  # a graph has no inputs of other types
        return np.ascontiguousarray(stored).reshape(stored.shape or (1,))

    def _as_model(self, name: str, array: Array) -> Array:
        """Returns a tensor of a graph with the sizes and the type it has in the model."""
        form = self._form(name)
        found: Array = array if form.sizes in (None, array.shape) else array.reshape(form.sizes)
        if form.dtype is None or form.dtype == found.dtype:
            return found
        # Integers of a node may be the same bytes with or without sign in the model.
        return found.astype(form.dtype) if form.is_converted else found.view(form.dtype)

    def _given(self, inputs: Mapping[str, Any]) -> Iterator[tuple[str, Array]]:
        require_input(inputs, self._prepared.inputs)
        for name in self._prepared.inputs:
            if name not in inputs:
                raise ModelError(f"the input {self._prepared.values[name]} is missing")
            yield name, self._checked(inputs[name], name)

    def _checked(self, given: Any, name: str) -> Array:
        """Returns an input as an array, if it has the type and the sizes that the model takes."""
        form, value = self._form(name), self._prepared.values[name]
        if not value.is_tensor:
            return given  # type: ignore[no-any-return]  # a sequence, which only nodes on the CPU take
        array = np.asarray(given)
        if array.dtype != form.dtype or array.shape != form.sizes:
            raise ModelError(f"{array.dtype}[{', '.join(map(str, array.shape))}] given for the input {value}")
        return array


class Form(NamedTuple):
    """How NumPy has a tensor of a model.

    Attributes:
        sizes: its sizes; None if one is unknown.
        dtype: its type; None if NumPy has none.
        is_converted: whether a graph returns its elements as bytes of another type.
    """

    sizes: tuple[int, ...] | None
    dtype: np.dtype[Any] | None
    is_converted: bool

    @classmethod
    def of(cls, value: Value) -> Form:
        element_type = value.element_type
        dtype = tensor_dtype_to_np_dtype(element_type) if element_type != TensorProto.UNDEFINED else None
        return cls(value.sizes, dtype, element_type in _OTHER_IN_NUMPY)


_OTHER_IN_NUMPY = frozenset((TensorProto.BOOL, TensorProto.INT4, TensorProto.UINT4))
"""The element types whose NumPy type is not that of the bytes that a graph returns."""


def load(
    source: Source,
    *,
    dimensions: Dimensions | None = None,
    like: Mapping[str, ArrayLike] | None = None,
    most_nodes: int = MOST_NODES,
    poll: Callable[[], object] = lambda: None,
) -> Model:
    """Loads an ONNX model.

    Args:
        source: a path, the bytes of a model, or a ModelProto. Only a model in a file may have external data.
        dimensions: the sizes of dimensions that the model names or, as ``INPUT:AXIS``, of those without a name.
        like: arrays of its inputs, whose sizes its other dimensions take.
        most_nodes: the most nodes that it may have, with those of its functions and subgraphs.
        poll: called before each node is read, lowered or reported on; may raise to abandon that.

    Raises:
        ModelError: it is not a valid model, exceeds a limit, or a dimension is left unknown.
        OSError: a file cannot be read.
    """
    model, folder = read_model(source, most_nodes)
    shapes = {name: np.shape(array) for name, array in (like or {}).items()}  # type: ignore[arg-type]  # DLPack
    preparation = Preparation(model, folder, dict(dimensions or {}), shapes, most_nodes, poll)
    return Model(source, preparation, preparation.run())
