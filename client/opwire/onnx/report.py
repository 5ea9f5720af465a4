"""What a model needs: its nodes with their DirectML operators, feature levels and the reasons for these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..graph import GRAPHS_FROM
from ..level import FeatureLevel
from ..violation import Violation
from .provider import VERSION
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
    def failing_as_emitted(self) -> list[Node]:
        """The other nodes for which ONNX Runtime emits operators that the level lacks, although others would do."""
        level, failing = self.level, {id(node) for node in self.failing}
        if level is None:
            return []
        return [node for node in self.model.nodes if id(node) not in failing and (node.provider.level or level) > level]

    @property
    def is_valid(self) -> bool:
        """Whether the level has all that is needed, also as ONNX Runtime emits it."""
        return not self.failing and not self.failing_as_emitted

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

    def provider(self, node: Node) -> str:
        """Says where ONNX Runtime's DirectML provider differs: it leaves a node to the CPU, or needs a higher level."""
        placed = node.provider
        if placed.level is None:
            return f"CPU: {placed.reason}" if node.is_lowered and node.uses else ""
        if not node.is_lowered:
            return f"{placed.level.short}: {' + '.join(each.type for each in placed.emits)}"
        return f"{placed.level.short}: {placed.why}" if node.level is not None and placed.level > node.level else ""

    @property
    def provider_level(self) -> FeatureLevel:
        """The lowest level that has graphs and what the provider emits for the nodes that it takes."""
        return max(GRAPHS_FROM, *(node.provider.level or GRAPHS_FROM for node in self.model.nodes), GRAPHS_FROM)

    @property
    def left_by_provider(self) -> list[Node]:
        """The nodes that DirectML could run and the provider leaves to the CPU."""
        return [node for node in self.model.nodes if node.is_lowered and node.uses and node.provider.level is None]

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
            "provider": {
                "onnxruntime": VERSION,
                "minimum_feature_level": str(self.provider_level),
                "on_cpu": [node.name for node in self.model.nodes if node.provider.level is None],
            },
        }
        if self.level is not None:
            found |= {"feature_level": str(self.level), "valid": not self.failing}
            found["failing"] = [node.name for node in self.failing]
            found["provider"]["failing"] = [node.name for node in self.failing_as_emitted]
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
            "provider": node.provider.to_json(),
        }
        if self.level is not None:
            found["violations"] = [each.to_json() for each in self.violations(node)]
        return found
