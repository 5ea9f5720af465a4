"""The nodes of a model with the DirectML operators that they become, and the feature levels of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..level import FeatureLevel
from ..reading import ReadDesc, read_desc
from ..violation import Violation
from .host import HostNode
from .nodes import ModelNode
from .provider import Placement, Provider
from .translation import Placed


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """A DirectML operator that a node becomes.

    Attributes:
        name: the name of its node in the graph.
        operator: its desc, as ``{"type", "desc"}``.
        read: the desc as read.
    """

    name: str
    operator: Mapping[str, Any]
    read: ReadDesc

    @property
    def type(self) -> str:
        """The operator type, without prefix."""
        return "" if self.read.type is None else self.read.type.name

    @property
    def level(self) -> FeatureLevel:
        """The lowest level at which the desc is valid."""
        level = self.read.minimum_level()
        assert level is not None  # it was valid at the highest
        return level

    @property
    def why(self) -> tuple[Violation, ...]:
        """Why no lower level takes it; empty for the lowest."""
        lower = [each for each in FeatureLevel if each < self.level]
        return self.read.violations_at(lower[-1]) if lower else ()


class Node:
    """A node of a model.

    Attributes:
        name, operator, domain: as in the model.
        since: the version since which the operator is as in the model's operator set.
        inputs, outputs: the names of its tensors.
        uses: the DirectML operators that it becomes. None are needed for a node that only views its input.
        reason: why it has no DirectML operators, or "".
    """

    def __init__(self, placed: Placed, provider: Callable[[], Provider]) -> None:
        self._placed = placed
        self._provider = provider
        node = placed.node
        self.name, self.operator, self.domain = node.name, node.proto.op_type, node.domain
        self.inputs, self.outputs = node.inputs, node.outputs
        self.since = node.since
        self.reason = "" if placed.host is None else placed.host.reason
        self.uses = tuple(Use(*_operator(name, each)) for name, each in placed.operators.items())

    @property
    def reads(self) -> list[str]:
        """The names of the tensors that it reads, including those that its subgraphs take from outside."""
        return list(dict.fromkeys(self._placed.node.reads()))

    @property
    def opsets(self) -> Mapping[str, int]:
        """The versions of the operator sets that it is read with."""
        return self._placed.opsets

    @property
    def model_node(self) -> ModelNode:
        return self._placed.node

    @property
    def host(self) -> HostNode | None:
        """What runs it on the CPU, if it has no DirectML operators."""
        return self._placed.host

    @property
    def is_lowered(self) -> bool:
        """Whether DirectML runs it."""
        return self._placed.host is None

    @property
    def level(self) -> FeatureLevel | None:
        """The lowest level that has its operators; None if it stays on the CPU."""
        if not self.is_lowered:
            return None
        return max((use.level for use in self.uses), default=min(FeatureLevel))

    @cached_property
    def provider(self) -> Placement:
        """Where ONNX Runtime's DirectML provider runs the node, and the DirectML operators that it emits."""
        return self._provider().placement(self._placed.node)

    def __repr__(self) -> str:
        became = " + ".join(use.type for use in self.uses) or ("a view" if self.is_lowered else "the CPU")
        return f"<Node {self.name}: {self.operator} as {became}>"


def _operator(name: str, node: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], ReadDesc]:
    operator = {key: value for key, value in node.items() if key != "inputs"}
    return name, operator, read_desc(operator, "")
