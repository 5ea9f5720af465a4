"""SCATTER_ELEMENTS and SCATTER_ND: if several tuples address the same slot, the last one wins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, prod
from operator import itemgetter

import numpy as np

from opwire.check import Plan
from opwire.tensor import packed_strides

from ...picking import Component, aligned_strides, last_dimensions
from ...views.movements import overwritten
from ..job import LOAD_BYTES, TYPES, BaseJob, Card, CudaJob, CudaMemory, KernelLaunch, Program
from ..structures import structure
from .pick import INDEX_SOURCES, tuple_parameter
from .view import UNITS, copies, filling
from .walk import THREADS, Loop, SplitLaunch, count_of, depth_macro, merged, on_card, write_walk

_STEPS = 3

_CLAIMS = structure("Claims", *INDEX_SOURCES, "movement/scatter", STEPS=_STEPS)
_SETTLEMENT = structure("Settlement", *INDEX_SOURCES, "movement/scatter", STEPS=_STEPS)


_PART, _MOST_PARTS = 1 << 22, 8
"""Number of slots whose owners stay in a card's cache while they are claimed, and maximum number of such parts.

All indices are read for each part.
"""


class Scattering:
    """The access pattern of a scatter; steps count elements or slots.

    Attributes:
        claims: loops over index tuples, with steps in the indices, the slots and the tuple numbers.
        components: the components of a tuple, with steps in the slots.
        slots: number of slots.
        places: loops over the target in memory order, with steps in the slots, the input and the updates.
        tuples: loops over tuples in order of their numbers; the third step is that in the updates.
    """

    def __init__(self, plan: Plan) -> None:
        self.components: list[Component] = []
        self.places: list[Loop] = []
        make = self._elements if plan.operator.name == "SCATTER_ELEMENTS" else self._tuples
        make(plan)

    def _elements(self, plan: Plan) -> None:
        indices, updates, target = (
            plan.inputs["IndicesTensor"],
            plan.inputs["UpdatesTensor"],
            plan.outputs["OutputTensor"],
        )
        source, axis = plan.inputs["InputTensor"], plan.attributes.Axis
        slots = target.element_strides
        self.slots = target.element_count
        self.components = [Component(0, target.sizes[axis], slots[axis])]
        self.claims = merged(
            [
                (size, step, 0, 1) if i == axis else (size, step, slots[i], 0)
                for i, (size, step) in enumerate(zip(indices.sizes, indices.element_strides, strict=True))
            ],
            _STEPS,
        )
        self.tuples = merged([(indices.sizes[axis], 0, 0, updates.element_strides[axis])], _STEPS)
        steps = zip(target.sizes, slots, source.element_strides, updates.element_strides, strict=True)
        self._set_places(
            [
                (slot, size, slot, here, 0 if i == axis else brought)
                for i, (size, slot, here, brought) in enumerate(steps)
            ]
        )

    def _tuples(self, plan: Plan) -> None:
        attributes = plan.attributes
        target = last_dimensions(plan.outputs["OutputTensor"], attributes.InputDimensionCount)
        source = last_dimensions(plan.inputs["InputTensor"], attributes.InputDimensionCount)
        *field, (length, place) = last_dimensions(plan.inputs["IndicesTensor"], attributes.IndicesDimensionCount)
        updates = aligned_strides(plan.inputs["UpdatesTensor"], len(field) + len(target) - length)
        named = [size for size, _ in target[:length]]
        slots = packed_strides(named)
        self.slots = prod(named)
        self.components = [Component(i * place, *each) for i, each in enumerate(zip(named, slots, strict=True))]
        numbers = packed_strides([size for size, _ in field])
        counted = zip(field, numbers, strict=True)
        self.claims = merged([(size, step, 0, number) for (size, step), number in counted], _STEPS)
        self.tuples = merged([(size, 0, 0, step) for (size, _), step in zip(field, updates, strict=False)], _STEPS)
        steps = zip(
            target,
            source,
            (*slots, *(0,) * (len(target) - length)),
            (*(0,) * length, *updates[len(field) :]),
            strict=True,
        )
        self._set_places([(out, size, slot, here, brought) for (size, out), (_, here), slot, brought in steps])

    def _set_places(self, steps: Sequence[Loop]) -> None:
        """Sets ``places`` from loops that are prefixed with the step in the target."""
        self.places = merged((loop for _, *loop in sorted(steps, key=itemgetter(0), reverse=True)), _STEPS)

    def lanes(self, most: int) -> int:
        """Returns how many elements move together: adjacent ones in the same slot."""
        *outer, (size, slot, here, brought) = self.places
        if (slot, here, brought) != (0, 1, 1):
            return 1
        return gcd(most, size, *(step for loop in outer for step in loop[2:]), *(loop[3] for loop in self.tuples))


def _in_lanes(loops: Sequence[Loop], lanes: int) -> list[Loop]:
    """Converts loops over elements to loops over units of ``lanes`` elements."""
    if lanes == 1:
        return list(loops)
    *outer, (size, *_) = loops
    wide = ((loop[0], loop[1], *(step // lanes for step in loop[2:])) for loop in outer)
    return merged([*wide, (size // lanes, 0, 1, 1)], _STEPS)


class ScatterJob(BaseJob):
    """Claims slots for tuples, then writes the output."""

    def __init__(self, plan: Plan) -> None:
        found = Scattering(plan)
        item = plan.outputs["OutputTensor"].data_type.bits // 8
        lanes = found.lanes(LOAD_BYTES // item)
        places = _in_lanes(found.places, lanes)
        macros = (
            ("STEPS", _STEPS),
            depth_macro(places),
            ("UNIT", UNITS[lanes * item]),
            ("INDEX", TYPES[plan.inputs["IndicesTensor"].data_type]),
        )
        program = Program((*INDEX_SOURCES, "movement/scatter"), macros)
        part = max(_PART, -(-found.slots // _MOST_PARTS))
        begins = np.arange(0, found.slots, part)
        claims = np.zeros(len(begins), _CLAIMS)
        claims["begin"], claims["end"] = begins, np.minimum(begins + part, found.slots)
        claims["tuple"] = tuple_parameter(found.components)
        for each in claims:
            write_walk(found.claims, each["walk"])
        settlement = np.zeros(1, _SETTLEMENT)
        write_walk(places, settlement["walk"][0])
        write_walk([(*loop[:3], loop[3] // lanes) for loop in found.tuples], settlement["tuples"][0])
        self._clearing = filling(found.slots, np.zeros((), "<u4"))
        count = count_of(found.claims)
        self._claims = [
            SplitLaunch(program, "claim_slots", claims[i : i + 1], count, THREADS) for i in range(len(claims))
        ]
        self._settlement = SplitLaunch(program, "settle", settlement, count_of(places), THREADS)
        self.programs = self._clearing.program, program
        self.scratch_bytes = 4 * found.slots

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        owners = memory.scratch
        yield from self._clearing.launches(owners, owners)
        for each in self._claims:
            yield from each.launches(owners, memory.inputs["IndicesTensor"])
        source, updates = memory.inputs["InputTensor"], memory.inputs["UpdatesTensor"]
        yield from self._settlement.launches(source, updates, memory.outputs["OutputTensor"], owners)


def job(plan: Plan, card: Card) -> CudaJob:
    """Returns the job of a scatter plan."""
    axis = getattr(plan.attributes, "Axis", None)
    if axis is not None and plan.outputs["OutputTensor"].sizes[axis] == 1:
        return copies(plan, overwritten)
    return ScatterJob(on_card(plan))


JOBS = dict.fromkeys(("SCATTER_ELEMENTS", "SCATTER_ND"), job)
