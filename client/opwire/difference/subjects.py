"""What is compared: the nodes of an ONNX model, a graph or a DxDispatch model, one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..tensor import Array


class Runner(Protocol):
    """Runs operators and graphs: ``opwire.local()`` or a client."""

    def execute(self, operator: Any, inputs: Any, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class TensorType:
    """The data type and sizes of a tensor, as its model has them."""

    dtype: np.dtype[Any]
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.sizes)}"


@dataclass(frozen=True, slots=True, eq=False)
class Isolated:
    """A node by itself, as a graph of DirectML operators.

    Attributes:
        graph: the graph as JSON, without the elements of its constants.
        constants: its constants, by the names of their nodes.
        feeds: the input of the graph for each tensor that the node reads.
        results: the output of the graph for each tensor that it produces.
    """

    graph: Mapping[str, Any]
    constants: Mapping[str, Array]
    feeds: Mapping[str, str]
    results: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class SubjectNode:
    """A node of a subject.

    Attributes:
        name: its name.
        operator: its operator, in the words of the model.
        inputs: the tensors that it reads and that are not constant.
        outputs: the tensors that it produces.
        reason: why opwire does not compute it exactly, or "".
        origin: the node of the model.
    """

    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    reason: str
    origin: Any


class Subject(ABC):
    """A model whose nodes are compared.

    Attributes:
        name: what it is called.
        inputs: its inputs by name.
        outputs: the names of its outputs.
        nodes: its nodes, each after those that it reads from.
        given: the tensors that it has itself, such as the buffers of a DxDispatch model.
    """

    name: str
    inputs: Mapping[str, TensorType]
    outputs: Sequence[str]
    nodes: Sequence[SubjectNode]
    given: Mapping[str, Array] = {}

    def adapted(self, tensor: str, array: Array) -> Array:
        """Returns a tensor of a side as the model has it."""
        return array

    @abstractmethod
    def type_of(self, tensor: str) -> TensorType | None:
        """Returns the type of a tensor, or None if it is not known before the model runs, or none of the model."""

    @abstractmethod
    def run(self, node: SubjectNode, tensors: Mapping[str, Array], runner: Runner) -> dict[str, Array]:
        """Returns the tensors that a node produces from given ones.

        Raises:
            OpwireError: it cannot be computed.
        """

    @abstractmethod
    def isolated(self, node: SubjectNode) -> Isolated | None:
        """Returns a node by itself, or None if it has no DirectML operators."""

    def variants(self, node: SubjectNode) -> Iterator[tuple[str, Isolated]]:
        """Yields a node with other attributes, as somebody may take it by mistake, each with what is different."""
        yield from ()

    def constant(self, tensor: str) -> Array | None:
        """Returns a tensor that is the same in every run, or None."""
        return None

    @abstractmethod
    def write_part(
        self, nodes: Sequence[SubjectNode], inputs: Mapping[str, Array], folder: Path
    ) -> tuple[str, Mapping[str, str]]:
        """Writes nodes as a model of their own to a folder.

        Returns:
            The name of its file, and what its tensors are called in the whole model where they have other names.

        Raises:
            OSError: a file cannot be written.
        """
