"""Finds out which elements of its inputs each element of an operator's outputs depends on, by running the operator.

Each element of the inputs is replaced in turn. The elements of the outputs that change have read it, and those that
follow every replacement exactly are copies of it. Nothing here knows what an operator does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opwire.check import Plan, check
from opwire.jsontensor import read_numbers
from opwire.operator import Example, Operator
from opwire.tensor import Array
from opwire.tensor_names import element
from opwire_service.devices.reference import ReferenceDevice

_STEPS = (1, -1, 40, -40)
"""What is added to an element to replace it: small steps keep indices in range, large ones change a maximum."""

Element = tuple[str, tuple[int, ...]]
"""An element of a tensor: the tensor's name, and its indices."""


@dataclass(frozen=True)
class Trace:
    """An operator's run.

    Attributes:
        plan: what was run.
        inputs: elements of the inputs.
        outputs: elements of the outputs.
        reads: for each element of the outputs, the elements of the inputs that it depends on.
        copies: the elements of the outputs that are copies, each with the element that it copies.
    """

    plan: Plan
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    reads: dict[Element, list[Element]] = field(default_factory=dict)
    copies: dict[Element, Element] = field(default_factory=dict)

    @property
    def is_flow(self) -> bool:
        """Whether the operator only moves elements: each of its outputs is a copy, or depends on no data."""
        copied = {name for name, _ in self.copies.values()}
        return bool(copied) and all(
            each in self.copies or not any(name in copied for name, _ in read) for each, read in self.reads.items()
        )

    @property
    def is_elementwise(self) -> bool:
        """Whether each output depends on the same place of the inputs only, so that a picture would show nothing."""
        return all(_is_same_place(self, each, read) for each, read in self.reads.items())


def _is_same_place(trace: Trace, output: Element, read: list[Element]) -> bool:
    shape = trace.outputs[output[0]].shape
    return all(at == output[1] for name, at in read if trace.inputs[name].shape == shape) and all(
        trace.inputs[name].size == 1 or trace.inputs[name].shape == shape for name, _ in read
    )


@np.errstate(all="ignore")
def trace(operator: Operator[Any], example: Example) -> Trace:
    """Runs an example of an operator as often as it takes to find out what its outputs depend on."""
    plan = check({"type": operator.name, "desc": dict(example.desc)}, example.level)
    inputs = {
        name: read_numbers(values, plan.inputs[name], "") for name, values in _by_tensor(plan, example.inputs).items()
    }
    found = Trace(plan, inputs, _run(plan, inputs))
    found.reads.update(((name, at), []) for name, array in found.outputs.items() for at in np.ndindex(array.shape))
    for name, array in inputs.items():
        for at in np.ndindex(array.shape):
            _replace(found, (name, at))
    return found


def _by_tensor(plan: Plan, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns tensors by the names that plans use; those of an array one by one."""
    found: dict[str, Any] = {}
    for name, values in given.items():
        single = name in plan.inputs
        found |= {name: values} if single else {element(name, i): each for i, each in enumerate(values)}
    return found


def _replace(found: Trace, place: Element) -> None:
    """Runs the operator with other values of one element, and notes what depends on it."""
    name, at = place
    changed: set[Element] = set()
    following = set(found.reads)
    for value in _replacements(found.inputs[name], at):
        other = found.inputs[name].copy()
        other[at] = value
        outputs = _run(found.plan, {**found.inputs, name: other})
        changed |= _where({each: ~_equal(array, found.outputs[each]) for each, array in outputs.items()})
        alike = {each: array for each, array in outputs.items() if array.dtype == other.dtype}
        following &= _where({each: _equal(array, value) for each, array in alike.items()})
    for each in sorted(changed):
        found.reads[each].append(place)
        if each in following:
            found.copies[each] = place


def _replacements(array: Array, at: tuple[int, ...]) -> Iterator[Any]:
    """Yields other values of an element that its type has, and for floats NaN, which nothing that is read can hide."""
    if not np.issubdtype(array.dtype, np.integer):
        yield from (array[at] + array.dtype.type(step) for step in _STEPS)
        yield array.dtype.type(np.nan)
        return
    limits = np.iinfo(array.dtype)
    for value in (int(array[at]) + step for step in _STEPS):
        if limits.min <= value <= limits.max:
            yield array.dtype.type(value)


def _where(marked: Mapping[str, Array]) -> set[Element]:
    return {(name, tuple(map(int, at))) for name, array in marked.items() for at in np.argwhere(array)}


def _equal(one: Array, other: Any) -> Array:
    with np.errstate(invalid="ignore"):
        same: Array = (one == other) | ((one != one) & (other != other))
    return same


def _run(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Array]:
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    _DEVICE.run(plan, inputs, outputs, lambda: False)
    return {name: array.copy() for name, array in outputs.items()}


_DEVICE = ReferenceDevice()
