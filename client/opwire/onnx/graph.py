"""Graphs of DirectML operators that nodes of a model are lowered to."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from typing import Any

from ..client.graph_tensors import GraphTensor
from ..client.graphs import Graph, unused, with_layouts
from ..client.operands import operator_call
from ..graph import CONSTANT, INPUT
from ..graph.form import LONGEST_NAME
from ..reading import read_desc
from ..schema import schema_of
from ..tensor import packed_strides
from ..tensor_names import ungrouped
from ..wire import Call
from .errors import NotLowered
from .values import Value, known_data_type, known_sizes, lacks_type, storable


class ModelGraph(Graph):
    """A graph under construction whose nodes are named after those of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, GraphTensor] = {}
        """The tensors of the model that the graph has, by name."""
        self.fed: dict[str, str] = {}
        """The tensors of the model that are inputs of the graph: the name of the input by that of the tensor."""
        self._owner = ""
        self._counts: dict[str, int] = {}

    @property
    def size(self) -> int:
        """The number of nodes, including constants."""
        return len(self._nodes)

    def nodes_since(self, size: int) -> dict[str, Mapping[str, Any]]:
        """Returns the operators among the nodes that were added since the graph had a size."""
        names = list(self._nodes)[size:]
        return {name: self._nodes[name] for name in names if "constant" not in self._nodes[name]}

    @contextmanager
    def lowering(self, name: str) -> Generator[None]:
        """Names nodes after one of the model, and removes them again if an error leaves the context."""
        self._owner, known, fed = name, dict(self.known), dict(self.fed)
        try:
            with self.undone_on_error():
                yield
        except BaseException:
            added = self.fed.keys() - fed.keys()
            for each in added:
                del self._inputs[self.fed[each]]
            self.known, self.fed = known, fed
            raise
        finally:
            self._owner = ""

    def tensor(self, value: Value) -> GraphTensor:
        """Returns a tensor of the model as one of the graph: known already, a constant, or an input.

        Raises:
            NotLowered: DirectML lacks its type, its sizes are not known, or it has no elements.
        """
        found = self.known.get(value.name)
        if found is None:
            found = self.known[value.name] = self._constant(value) if value.is_known else self._fed(value)
        return found

    def _constant(self, value: Value) -> GraphTensor:
        array = storable(value.array) if value.array is not None else None
        if array is None:
            raise NotLowered(lacks_type(value))
        if not array.size:
            raise NotLowered(
                f"{value.name} has the sizes {list(array.shape)}, and DirectML has no tensors without elements"
            )
        return self.constant(array.reshape(array.shape or (1,)))

    def _fed(self, value: Value) -> GraphTensor:
        data_type, sizes = known_data_type(value), known_sizes(value)
        name = unused(_allowed(value.name, CONSTANT), self._inputs)
        self.fed[value.name] = name
        return self.input(name, data_type, sizes or (1,))

    def emit(self, operator: str, members: Mapping[str, Any]) -> GraphTensor:
        """Adds an operator and returns its first output (see ``NodeLowering.emit``)."""
        return self._run(_call(operator, members), {})

    def level_of(self, operator: str, members: Mapping[str, Any]) -> float:
        """Returns the lowest feature level that has an operator with these members, infinity if none does."""
        level = read_desc(with_layouts(_call(operator, members)), "").minimum_level()
        return inf if level is None else level

    def _name(self, kind: str) -> str:
        wanted = _allowed(f"{self._owner}/{kind}" if self._owner else kind, INPUT)
        number = self._counts[wanted] = self._counts.get(wanted, 0) + 1
        return wanted if number == 1 else unused(f"{wanted[: LONGEST_NAME - 8]}_{number}", self._nodes)

    def feeds(self) -> dict[str, str]:
        """Returns the inputs that are left: the name of the input by that of the tensor of the model."""
        return {name: each for name, each in self.fed.items() if each in self._inputs}

    def node_names(self) -> Iterator[str]:
        """Yields the names of its nodes."""
        yield from self._nodes

    def prune(self) -> None:
        """Leaves out nodes and inputs that no output of the graph depends on."""
        needed: set[str] = set()
        waiting = list(self._outputs.values())
        while waiting:
            source = waiting.pop()
            name = source if source in self._nodes or source.startswith(INPUT) else source.rpartition(".")[0]
            if name not in needed:
                needed.add(name)
                waiting += ungrouped(self._nodes.get(name, {}).get("inputs", {})).values()
        self._nodes = {name: node for name, node in self._nodes.items() if name in needed}
        self._constants = {name: array for name, array in self._constants.items() if name in needed}
        self._tensors = [each for each in self._tensors if each.source.rpartition(".")[0] in needed]
        self._inputs = {name: each for name, each in self._inputs.items() if INPUT + name in needed}

    def add_output(self, name: str, tensor: GraphTensor, *, exact: bool) -> str:
        """Makes a tensor an output and returns the output's name.

        Args:
            name: the name it has in the model.
            tensor: the tensor. An input or a constant is copied.
            exact: whether the output must have its sizes; otherwise it may have others with the same bytes.
        """
        output = unused(name[:LONGEST_NAME], self._outputs)
        if not exact and tensor.is_view and tensor.outputs and self._is_whole(tensor):
            self._outputs[output] = tensor.source
        else:
            with self.lowering(name):
                self.output(output, tensor if tensor.outputs or tensor.is_view else self.element_wise_identity(tensor))
        return output

    @staticmethod
    def _is_whole(tensor: GraphTensor) -> bool:
        """Returns whether a view has all elements of what it views, in their order."""
        viewed = next(each for each in tensor.outputs.values() if each.source == tensor.source)
        descs = (tensor.desc, viewed.desc)
        return len({desc.element_count for desc in descs}) == 1 and all(
            desc.element_strides == packed_strides(desc.sizes) for desc in descs
        )


def _call(operator: str, members: Mapping[str, Any]) -> Call:
    names = [member.name for member in schema_of(operator).members.inputs]
    inputs = [members.get(name) for name in names]
    return operator_call(operator, inputs, {name: value for name, value in members.items() if name not in names})


def _allowed(name: str, reserved: str) -> str:
    """Returns a name that a graph may have: not too long, and without the reserved prefix."""
    return (f"_{name}" if name.startswith(reserved) else name)[:LONGEST_NAME]
