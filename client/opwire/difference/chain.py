"""The DirectML operators of nodes, run one by one, so that each can be varied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ..check import check
from ..errors import OpwireError
from ..graph import Bytes, Place, Step, check_graph
from ..schema import PREFIX
from ..tensor import Array, BufferTensorDesc
from ..tensor_names import grouped
from .subjects import Isolated, Runner, Subject, SubjectNode


class Key(NamedTuple):
    """A buffer of a chain: a tensor of the model, or a tensor between the operators of one of its nodes."""

    node: str
    name: str | int


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An operator of a chain.

    Attributes:
        type: its type, without prefix.
        desc: its desc.
        inputs, outputs: the buffers of its tensors.
        tensors: the descs of its tensors.
    """

    type: str
    desc: Mapping[str, Any]
    inputs: Mapping[str, Key]
    outputs: Mapping[str, Key]
    tensors: Mapping[str, BufferTensorDesc]

    def run(self, runner: Runner, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Returns the elements of its outputs.

        Args:
            runner: what computes.
            inputs: the elements of its inputs, in the order of their buffers.

        Raises:
            OpwireError: it cannot be run.
        """
        operator = {"type": PREFIX + self.type, "desc": self.desc}
        outputs = runner.execute(operator, grouped(inputs)).outputs
        return {name: np.ascontiguousarray(outputs[name]).reshape(-1) for name in self.outputs}

    def sizes(self, tensor: str) -> tuple[int, ...]:
        return self.tensors[tensor].sizes


Change = Callable[[Operation, dict[str, Array]], tuple[Operation, dict[str, Array]]]
"""Changes an operator and the elements of its inputs before it runs."""


@dataclass(slots=True, eq=False)
class Chain:
    """The operators of nodes that are compared together, in the order in which they run.

    Attributes:
        operations: the operators.
        buffers: the elements of the tensors that they read, and of all that they produce once the chain has run.
        results: the buffer of each tensor that the nodes produce.
        constants: the buffers that are constants of the model.
    """

    runner: Runner
    operations: list[Operation] = field(default_factory=list)
    buffers: dict[Key, Array] = field(default_factory=dict)
    results: dict[str, Key] = field(default_factory=dict)
    constants: set[Key] = field(default_factory=set)

    def give(self, name: str, array: Array) -> None:
        """Takes the elements of a tensor that a node produces, so that they are not computed again."""
        key, found = self.results[name], _elements(array)
        output = next(
            operation.tensors[tensor]
            for operation in self.operations
            for tensor, each in operation.outputs.items()
            if each == key
        )
        self.buffers[key] = found.view(output.data_type.dtype)

    def run(self) -> None:
        """Computes the tensors that are not known, exactly rounded from one operator to the next."""
        for operation in self.operations:
            if not all(key in self.buffers for key in operation.outputs.values()):
                found = operation.run(self.runner, self.inputs_of(operation))
                self.buffers |= {operation.outputs[name]: array for name, array in found.items()}

    def inputs_of(self, operation: Operation) -> dict[str, Array]:
        return {name: self.buffers[key] for name, key in operation.inputs.items()}

    def varied(self, change: Change, given: Mapping[Key, Array] | None = None) -> dict[Key, Array]:
        """Returns all buffers as they are after a change.

        Args:
            change: what to change of each operator.
            given: other elements of the tensors that the chain reads.

        Raises:
            OpwireError: it cannot be run then.
        """
        read = {key for operation in self.operations for key in operation.inputs.values()}
        produced = {key for operation in self.operations for key in operation.outputs.values()}
        found = {key: self.buffers[key] for key in read - produced} | dict(given or {})
        for operation in self.operations:
            changed, inputs = change(operation, {name: found[key] for name, key in operation.inputs.items()})
            outputs = changed.run(self.runner, inputs)
            found |= {operation.outputs[name]: array for name, array in outputs.items()}
        return found

    @property
    def given(self) -> dict[Key, Array]:
        """The buffers that no operator writes."""
        produced = {key for operation in self.operations for key in operation.outputs.values()}
        return {key: array for key, array in self.buffers.items() if key not in produced}


def unchanged(operation: Operation, inputs: dict[str, Array]) -> tuple[Operation, dict[str, Array]]:
    return operation, inputs


def shaped(array: Array, tensor: BufferTensorDesc) -> Array:
    """Returns the elements of a buffer in the sizes of its tensor."""
    if tensor.strides is None:
        return array[: tensor.element_count].reshape(tensor.sizes)
    steps = [step * array.itemsize for step in tensor.strides]
    return np.lib.stride_tricks.as_strided(array, tensor.sizes, steps, writeable=False)


def chain_of(
    subject: Subject,
    nodes: Sequence[SubjectNode],
    tensors: Mapping[str, Array],
    runner: Runner,
    variant: Isolated | None = None,
) -> Chain | None:
    """Returns the operators of nodes, not yet run; None if one of them has no DirectML operators.

    Args:
        subject: the model.
        nodes: the nodes; each reads tensors that are known or that those before it produce.
        tensors: the tensors that are known.
        runner: what computes.
        variant: what to take for the last node.
    """
    chain = Chain(runner)
    for node in nodes:
        alone = variant if variant is not None and node is nodes[-1] else subject.isolated(node)
        if alone is None:
            return None
        try:
            _add(chain, subject, node, alone, tensors)
        except (OpwireError, KeyError):
            return None  # a tensor is missing
    return chain


def _add(chain: Chain, subject: Subject, node: SubjectNode, alone: Isolated, tensors: Mapping[str, Array]) -> None:
    plan = check_graph(alone.graph)
    names = {graph: name for name, graph in alone.feeds.items()}
    for name in alone.feeds:
        if name not in chain.results:
            chain.results[name] = Key("", name)
            given = tensors.get(name)
            constant = subject.constant(name) if given is None else given
            if constant is None:
                raise KeyError(name)
            if given is None:
                chain.constants.add(Key("", name))
            chain.buffers[Key("", name)] = _elements(constant)

    def key(at: Bytes) -> Key:
        at = plan.attributes.copies.get(at.name, at) if at.place is Place.OUTPUT else at
        if at.place is not Place.INPUT:
            return Key(node.name, f"{at.place.value} {at.name}")
        if at.name in names:
            return chain.results[names[str(at.name)]]
        return Key(node.name, at.name)

    for name, array in alone.constants.items():
        at = Key(node.name, f"constant:{name}")
        chain.buffers[at] = _elements(array)
        chain.constants.add(at)
    for step in plan.attributes.steps:
        chain.operations += _operations(step, alone.graph["nodes"][step.name], key)
    for name, graph in alone.results.items():
        chain.results[name] = key(Bytes(Place.OUTPUT, graph))


def _elements(array: Array) -> Array:
    found = np.ascontiguousarray(array).reshape(-1)
    return found.view(np.uint8) if found.dtype == np.bool_ else found


def _operations(step: Step, node: Mapping[str, Any], key: Callable[[Bytes], Key]) -> Iterator[Operation]:
    """Yields the operator of a step, and its fused activation as one of its own."""
    inputs = {name: key(at) for name, at in step.inputs.items()}
    outputs = {name: key(at) for name, at in step.outputs.items()}
    kind = step.plan.operator.name
    yield from split(Operation(kind, node["desc"], inputs, outputs, {**step.plan.inputs, **step.plan.outputs}))


def split(operation: Operation) -> Iterator[Operation]:
    """Yields an operator without its fused activation, and the activation."""
    fused = operation.desc.get("FusedActivation")
    if not fused:
        yield operation
        return
    output = next(iter(operation.outputs))
    between = Key(operation.outputs[output].node, f"{operation.outputs[output].name} before its activation")
    plain = {name: value for name, value in operation.desc.items() if name != "FusedActivation"}
    yield replace(operation, desc=plain, outputs={**operation.outputs, output: between})
    tensor = replace(operation.tensors[output], strides=None, total_size_in_bytes=0)
    kind, members = _spelled(fused)
    desc = {**members, "InputTensor": tensor.to_json(), "OutputTensor": tensor.to_json()}
    tensors = {"InputTensor": tensor, "OutputTensor": tensor}
    yield Operation(kind, desc, {"InputTensor": between}, {"OutputTensor": operation.outputs[output]}, tensors)


def _spelled(fused: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Returns the type and the members of an operator within a desc, which has several spellings."""
    kind = str(fused.get("type", fused.get("Type"))).removeprefix(PREFIX)
    inner = fused.get("desc", fused.get("Desc"))
    rest = {name: value for name, value in fused.items() if name.casefold() not in ("type", "desc")}
    return kind, {**rest, **(inner or {})}


def single(operator: Mapping[str, Any], inputs: Mapping[str, Array], runner: Runner) -> Chain:
    """Returns an operator as a chain, with its tensors by their names in the desc.

    Args:
        operator: the operator, as ``{"type", "desc"}``.
        inputs: the elements of its inputs, by tensor.
        runner: what computes.

    Raises:
        ContractViolation: the operator is not valid.
    """
    plan = check(operator)
    keys = {name: Key("", name) for name in (*plan.inputs, *plan.outputs)}
    operation = Operation(
        plan.operator.name,
        operator["desc"],
        {name: keys[name] for name in plan.inputs},
        {name: keys[name] for name in plan.outputs},
        {**plan.inputs, **plan.outputs},
    )
    buffers = {keys[name]: _elements(array) for name, array in inputs.items()}
    return Chain(runner, list(split(operation)), buffers, {name: keys[name] for name in plan.outputs})
