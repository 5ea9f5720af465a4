"""Plans with inputs in which much cancels, and the same inputs with NaN or infinities in one part.

The numbers cancel on purpose: where devices take a short cut unless too much cancels, one part must not decide for
another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from opwire.check import Plan, check
from opwire.errors import ContractViolation
from opwire.operator import Operator
from opwire.tensor import Array, BufferTensorDesc, DataType
from opwire_service.devices.base import Device
from opwire_service.kernels.executable import EXECUTABLE
from tests.oracles import inputs_of
from tests.strategies import Drawn, descs
from tests.support.execution import never_stop

POISONS = (math.nan, math.inf, -math.inf)

LARGE = {DataType.FLOAT16: 4096.0, DataType.FLOAT32: 1e16, DataType.FLOAT64: 1e16}
"""A number that hides small ones next to it."""

POISONABLE = tuple(
    name
    for name, operator in EXECUTABLE.items()
    if any(
        data_type in LARGE
        for row in operator.support.rows({})
        for member in operator.members.inputs
        for data_type in row.tensors[member.name].data_types
    )
)
"""The operators with an input that can hold a NaN."""

_SMALL, _SMALLEST = (1, 2, 3), (1, 2)
"""Sizes of dimensions where larger ones make too large tensors."""

_MOST_WORK = 1 << 16
"""Most visits, so that the reference takes little time."""

Buffers = Mapping[str, bytearray]


@dataclass(frozen=True, repr=False)
class Poisoned:
    """A plan with two inputs that differ in one part of one tensor."""

    plan: Plan
    clean: Buffers
    poisoned: Buffers
    note: str

    def __repr__(self) -> str:
        return self.note


@st.composite
def poisoned_plans(draw: st.DrawFn, operator: Operator[Any], sizes: Sequence[int], most: int) -> Poisoned:
    """Draws plans of an operator with at most ``most`` elements in a tensor."""
    drawn = draw(descs(operator, sizes))
    for smaller in (_SMALL, _SMALLEST):
        if not _fits(drawn, most):
            drawn = draw(descs(operator, smaller))
    assume(_fits(drawn, most))
    plan = check(drawn.request, drawn.level)
    names = [name for name, desc in plan.inputs.items() if desc.data_type in LARGE]
    assume(names)
    random = np.random.default_rng(draw(st.integers(0, 2**20)))
    buffers = {name: filled(desc, random) for name, desc in plan.inputs.items()}
    chosen = inputs_of(operator.name)
    for name, array in (chosen(draw, plan) if chosen else {}).items():
        plan.inputs[name].put(array, plan.inputs[name].view(buffers[name]))
    name = names[random.integers(len(names))]
    place, poison = _place(plan.inputs[name].sizes, random), POISONS[random.integers(len(POISONS))]
    spoiled = {each: bytearray(buffer) for each, buffer in buffers.items()}
    plan.inputs[name].view(spoiled[name])[place] = poison
    return Poisoned(plan, buffers, spoiled, f"{poison} in {name}{place} of {drawn.request}")


def _fits(drawn: Drawn, most: int) -> bool:
    try:
        plan = check(drawn.request, drawn.level)
    except ContractViolation:  # more elements than a tensor may have
        return False
    tensors = (*plan.inputs.values(), *plan.outputs.values())
    return max(desc.element_count for desc in tensors) <= most and plan.work <= _MOST_WORK


def filled(desc: BufferTensorDesc, random: np.random.Generator) -> bytearray:
    """Returns a buffer of ordinary numbers, of few that cancel, or of integers that are small indices."""
    size = desc.total_size_in_bytes
    if desc.data_type.bits < 8:
        return bytearray(random.bytes(size))
    dtype = desc.data_type.dtype
    count = -(-size // dtype.itemsize)
    if desc.data_type not in LARGE:
        return bytearray(random.integers(0, 4, count).astype(dtype).tobytes())
    large = LARGE[desc.data_type]
    pools = ([large, 1, -large, 3], [-1, 0, 1, 2, -0.0], [2048, -2048, 1, 0.5, -0.5, 3])
    kind = random.integers(len(pools) + 1)
    numbers = random.standard_normal(count) if kind == len(pools) else random.choice(pools[kind], count)
    return bytearray(numbers.astype(dtype).tobytes())


def _place(sizes: Sequence[int], random: np.random.Generator) -> tuple[Any, ...]:
    """Returns one element, or all with the same index along a dimension."""
    if random.random() < 0.4:
        return tuple(int(random.integers(size)) for size in sizes)
    axis = int(random.integers(len(sizes)))
    return (*(slice(None) for _ in range(axis)), int(random.integers(sizes[axis])))


def results(device: Device, plan: Plan, buffers: Buffers) -> dict[str, Array]:
    """Runs a plan and returns its outputs, packed."""
    inputs = {name: desc.view(buffers[name]) for name, desc in plan.inputs.items()}
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    device.run(plan, inputs, outputs, never_stop)
    return {name: np.array(output) for name, output in outputs.items()}


def are_alike(a: Array, b: Array) -> Array:
    """Returns where two arrays have the same bits, or both NaN."""
    if a.dtype.kind != "f":
        return np.asarray(a == b)
    bits = f"u{a.dtype.itemsize}"
    return np.asarray((a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b)))


def are_of_a_kind(a: Array, b: Array) -> Array:
    """Returns where two arrays are both NaN, or have the same sign and are neither or both 0 or infinite.

    Numbers next to 0 or infinity are allowed there, as some results are promised within one ULP only.
    """
    if a.dtype.kind != "f":
        return np.ones(a.shape, bool)
    least, most = np.finfo(a.dtype).smallest_subnormal, np.finfo(a.dtype).max
    are_close = (np.abs(a) <= least) == (np.abs(b) <= least)
    are_close &= (np.abs(a) >= most) == (np.abs(b) >= most)
    are_close &= np.signbit(a) == np.signbit(b)
    return np.asarray((np.isnan(a) & np.isnan(b)) | are_close)


def faults(device: Device, reference: Device, each: Poisoned) -> Iterator[str]:
    """Yields what poison spoiled on a device beyond the results that it reaches on the reference."""
    right, right_poisoned = (results(reference, each.plan, buffers) for buffers in (each.clean, each.poisoned))
    found, found_poisoned = (results(device, each.plan, buffers) for buffers in (each.clean, each.poisoned))
    for name, after in found_poisoned.items():
        spoiled = are_alike(right[name], right_poisoned[name]) & ~are_alike(found[name], after)
        other = ~are_of_a_kind(after, right_poisoned[name])
        for what, where in (("spoiled", spoiled), ("unlike the reference's", other)):
            if where.any():
                numbers = (array[where][:3].tolist() for array in (found[name], after, right_poisoned[name]))
                yield "{} results of {}: {}, then {}, right is {}: {}".format(where.sum(), what, *numbers, each.note)
