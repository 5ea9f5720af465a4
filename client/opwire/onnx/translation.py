"""Translates a prepared model: graphs of DirectML operators, and between them the nodes that stay on the CPU.

The parts run in stages. In each, a graph runs first, then the nodes on the CPU that need its results. A node belongs to
the first stage that has its inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ..client.calls import FixedGraph
from ..graph.form import MOST_NODES
from .errors import NotLowered
from .functions import Opsets
from .graph import ModelGraph
from .host import HostNode
from .lower import lower
from .nodes import ModelNode
from .preparing import Preparation, Prepared
from .values import Value

_ROOM = MOST_NODES - 256
"""Nodes after which a graph takes no further node of the model, which may become several."""


@dataclass(eq=False)
class Stage:
    """A graph, and the nodes on the CPU that run after it.

    Attributes:
        graph: the graph; without nodes if no operator is needed.
        outputs: the tensors of the model that the graph returns: the name of the output by that of the tensor.
        host: the nodes on the CPU, in order.
    """

    graph: ModelGraph = field(default_factory=ModelGraph)
    outputs: dict[str, str] = field(default_factory=dict)
    host: list[HostNode] = field(default_factory=list)

    @cached_property
    def fixed(self) -> FixedGraph:
        """The graph as it runs, once it is complete."""
        return FixedGraph(self.graph)

    @cached_property
    def feeds(self) -> Mapping[str, str]:
        """The inputs of that graph, see ``ModelGraph.feeds``."""
        return self.graph.feeds()


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Where a node of the model went.

    Attributes:
        node: the node.
        stage: the number of its stage.
        operators: its DirectML operators by the names of their nodes in the graph.
        host: the node on the CPU, if it has no operators.
        opsets: the operator sets that it is from.
    """

    node: ModelNode
    stage: int
    operators: Mapping[str, Mapping[str, Any]]
    host: HostNode | None = None
    opsets: Opsets = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Translation:
    """A translated model.

    Attributes:
        stages: what runs, in order.
        placed: where each node went.
    """

    stages: list[Stage]
    placed: list[Placed]

    def produced(self) -> list[str]:
        """Returns the names of the tensors that graphs return, then of those from nodes on the CPU, each once."""
        names = [name for stage in self.stages for name in stage.outputs]
        names += [name for stage in self.stages for host in stage.host for name in host.node.outputs if name]
        return list(dict.fromkeys(names))


def translate(prepared: Prepared, preparation: Preparation, *, keep: str = "outputs") -> Translation:
    """Translates a prepared model.

    Args:
        prepared: the model.
        preparation: what prepared it.
        keep: "outputs" to return the outputs of the model alone, "all" for every tensor.
    """
    translator = _Translator(prepared, preparation)
    for node, opsets in prepared.nodes:
        preparation.poll()
        translator.place(node, opsets)
    wanted = prepared.outputs if keep == "outputs" else [*translator.produced]
    translator.connect(dict.fromkeys(wanted))
    return Translation(translator.stages, translator.placed)


class _Translator:
    def __init__(self, prepared: Prepared, preparation: Preparation) -> None:
        self.prepared = prepared
        self.preparation = preparation
        self.values: dict[str, Value] = prepared.values
        self.stages = [Stage()]
        self.placed: list[Placed] = []
        self.produced: dict[str, tuple[int, bool]] = {}
        """The stage that produces each tensor, and whether a node on the CPU does."""
        self.first = 0
        """The first stage whose graph takes further nodes."""

    def place(self, node: ModelNode, opsets: Opsets) -> None:
        """Lowers a node, or keeps it on the CPU; what ONNX defines by other nodes is replaced by these if need be."""
        stage = self._stage(node, on_host=False)
        graph = self.stages[stage].graph
        size = graph.size
        try:
            tensors = lower(node, graph, self.values)
        except NotLowered as error:
            body = self.preparation.body_of(node, opsets)
            if body is None:
                self._stay(node, str(error), opsets)
                return
            self._replace(node, *body)
            return
        for name, tensor in zip(node.outputs, tensors, strict=False):
            if name and tensor is not None:
                graph.known[name] = tensor
                self.produced[name] = (stage, False)
        self.placed.append(Placed(node, stage, graph.nodes_since(size), opsets=opsets))
        if graph.size > _ROOM:
            self.first = stage + 1

    def _replace(self, node: ModelNode, protos: Any, opsets: Opsets) -> None:
        known = {name: self.values.pop(name) for name in node.outputs if name in self.values}
        for each, its in self.preparation.replaced(node, protos, opsets):
            self.place(each, its)
        for name, value in known.items():
            self.values.setdefault(name, value)

    def _stay(self, node: ModelNode, reason: str, opsets: Opsets) -> None:
        stage = self._stage(node, on_host=True)
        host = HostNode(node, reason, opsets)
        self.stages[stage].host.append(host)
        for name in filter(None, node.outputs):
            self.produced[name] = (stage, True)
        self.placed.append(Placed(node, stage, {}, host, opsets))

    def _stage(self, node: ModelNode, *, on_host: bool) -> int:
        """Returns the first stage in which a node can run, which may be a new one."""
        after = [self.produced[name] for name in node.reads() if name in self.produced]
        stage = max((at + (was_on_host and not on_host) for at, was_on_host in after), default=0)
        stage = stage if on_host else max(stage, self.first)
        while stage >= len(self.stages):
            self.stages.append(Stage())
        return stage

    def connect(self, wanted: Mapping[str, None]) -> None:
        """Names the tensors that each graph returns, and leaves out what nobody needs. The last stage comes first."""
        needed, outputs = dict(wanted), {*self.prepared.outputs}
        for number in reversed(range(len(self.stages))):
            stage = self.stages[number]
            stage.host = [host for host in reversed(stage.host) if self._is_needed(host, needed)][::-1]
            for name in needed:
                if self.produced.get(name) == (number, False):
                    exact = name in outputs
                    stage.outputs[name] = stage.graph.add_output(name, stage.graph.known[name], exact=exact)
            stage.graph.prune()
            needed |= dict.fromkeys(stage.graph.feeds())
        self.placed = self._used(wanted)

    def _used(self, wanted: Mapping[str, None]) -> list[Placed]:
        """Returns the nodes that results depend on, in order; the others were needed for attributes at most."""
        present = {name for stage in self.stages for name in stage.graph.node_names()}
        needed, used = {*wanted}, []
        for each in reversed(self.placed):
            if each.host is None:
                is_used = any(name in present for name in each.operators) or self._is_view(each, needed)
            else:
                is_used = any(each.host in stage.host for stage in self.stages)
            if is_used:
                needed.update(each.node.reads())
                left = {name: node for name, node in each.operators.items() if name in present}
                used.append(replace(each, operators=left))
        return used[::-1]

    def _is_view(self, placed: Placed, needed: Collection[str]) -> bool:
        """Returns whether an output that is needed comes from none of the node's operators, but views its input."""
        known = self.stages[placed.stage].graph.known
        sources = [known[name].source for name in placed.node.outputs if name in needed and name in known]
        own = tuple(f"{name}." for name in placed.operators)
        return any(not f"{source}.".startswith(own) for source in sources)

    @staticmethod
    def _is_needed(host: HostNode, needed: dict[str, None]) -> bool:
        if not any(name in needed for name in host.node.outputs):
            return False
        needed.update(dict.fromkeys(host.inputs))
        return True
