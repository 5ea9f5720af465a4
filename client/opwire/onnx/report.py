"""What a model needs: its nodes with their DirectML operators, feature levels and the reasons for these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..level import FeatureLevel
from ..violation import Violation
from .uses import Node
from .values import Value


class Model(Protocol):
    """A model that is reported on."""

    @property
    def nodes(self) -> Sequence[Node]: ...

    @property
    def level(self) -> FeatureLevel: ...

    @property
    def inputs(self) -> Mapping[str, Value]: ...

    @property
    def outputs(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True, eq=False)
class LevelReport:
    """A model against a feature level.

    Attributes:
        model: the model.
        level: the level, or None for no particular one.
    """

    model: Model
    level: FeatureLevel | None = None

    @property
    def failing(self) -> list[Node]:
        """The nodes with operators that the level lacks."""
        return [node for node in self.model.nodes if self.violations(node)]

    @property
    def on_cpu(self) -> list[Node]:
        """The nodes without DirectML operators."""
        return [node for node in self.model.nodes if not node.is_lowered]

    def violations(self, node: Node) -> list[Violation]:
        """Returns why the level lacks the operators of a node."""
        if self.level is None:
            return []
        return [found for use in node.uses for found in use.read.violations_at(self.level)]

    def why(self, node: Node) -> str:
        """Says why a node needs its level, or why it stays on the CPU."""
        if not node.is_lowered:
            return node.reason
        decisive = next((use for use in node.uses if use.level == node.level and use.why), None)
        return decisive.why[0].message if decisive else ""

    def to_json(self) -> dict[str, Any]:
        """Returns the report as JSON."""
        level = self.model.level
        found: dict[str, Any] = {
            "minimum_feature_level": str(level),
            "directml": level.directml,
            "inputs": {name: value.to_json() for name, value in self.model.inputs.items()},
            "outputs": list(self.model.outputs),
            "nodes": [self._node(node) for node in self.model.nodes],
            "on_cpu": [node.name for node in self.on_cpu],
        }
        if self.level is not None:
            found |= {"feature_level": str(self.level), "valid": not self.failing}
            found["failing"] = [node.name for node in self.failing]
        return found

    def _node(self, node: Node) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": node.name,
            "operator": node.operator,
            "domain": node.domain or "ai.onnx",
            "since": node.since,
            "inputs": node.inputs,
            "outputs": node.outputs,
            "directml": [
                {"name": use.name, **use.operator, "minimum_feature_level": str(use.level)} for use in node.uses
            ],
            "minimum_feature_level": None if node.level is None else str(node.level),
            "why": self.why(node) or None,
        }
        if self.level is not None:
            found["violations"] = [each.to_json() for each in self.violations(node)]
        return found
