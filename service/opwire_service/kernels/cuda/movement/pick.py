"""The GATHER operators, REVERSE_SUBSEQUENCES and ONE_HOT: each output element is selected by an index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from operator import itemgetter

import numpy as np

from opwire.check import Plan
from opwire.tensor import BufferTensorDesc

from ...picking import PICKS, Component, Picks, Point
from ..job import LOAD_BYTES, TYPES, BaseJob, Card, CudaJob, CudaMemory, KernelLaunch, Program
from ..structures import constant, structure
from .view import UNITS
from .walk import THREADS, Loop, SplitLaunch, count_of, depth_macro, merged, on_card, write_walk

PICK_BATCH, HOT_BATCH = constant("BATCH", "movement/pick"), constant("BATCH", "movement/one_hot")
"""Items per thread."""

INDEX_SOURCES = ("scalars", "movement/walk", "movement/plain", "movement/indices")

TUPLE = structure("Tuple", "movement/indices")
_PICK = structure("Pick", *INDEX_SOURCES, "movement/pick", STEPS=3)
_ONE_HOT = structure("OneHot", *INDEX_SOURCES, "movement/one_hot", STEPS=2)


def tuple_parameter(components: Sequence[Component]) -> np.ndarray[tuple[int, ...], np.dtype[np.void]]:
    parameter = np.zeros((), TUPLE)
    parameter["count"] = len(components)
    for i, component in enumerate(components):
        parameter["component"][i] = tuple(component)
    return parameter


class PickJob(BaseJob):
    """Output units, each read from where its indices point.

    Args:
        plan: the plan with its GPU layout.
        picks: the access pattern, with one point per output element.
        indices: name of the index tensor.
        places: for reversed sequences, the step of the position in the sequence for each point.
    """

    def __init__(self, plan: Plan, picks: Picks, indices: str, places: Sequence[int] | None = None) -> None:
        self._indices = indices
        source, index = plan.inputs["InputTensor"], plan.inputs[indices]
        beside = places or (0,) * len(picks.points)
        points = sorted(zip(picks.points, beside, strict=True), key=lambda pair: pair[0].target, reverse=True)
        loops = merged(((each.size, each.indices, each.source, place) for each, place in points), 3)
        item = source.data_type.bits // 8
        lanes = _lanes(loops, picks.components, LOAD_BYTES // item)
        *outer, inner = loops
        loops = merged(
            [
                *((size, at, here // lanes, place) for size, at, here, place in outer),
                (inner[0] // lanes, inner[1], 1 if lanes > 1 else inner[2], inner[3]),
            ],
            3,
        )
        parameter = np.zeros(1, _PICK)
        components = [part._replace(step=part.step // lanes) for part in picks.components]
        parameter["tuple"] = tuple_parameter(components)
        write_walk(loops, parameter["walk"][0])
        program = Program(
            (*INDEX_SOURCES, "movement/pick"),
            (
                ("STEPS", 3),
                depth_macro(loops),
                ("UNIT", UNITS[lanes * item]),
                ("INDEX", TYPES[index.data_type]),
                ("REVERSE", int(places is not None)),
            ),
        )
        self._part = SplitLaunch(program, "pick_units", parameter, count_of(loops), THREADS * PICK_BATCH)
        self.programs = (program,)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        source, target = memory.inputs["InputTensor"], memory.outputs["OutputTensor"]
        return self._part.launches(source, target, memory.inputs[self._indices])


def _lanes(loops: Sequence[Loop], components: Sequence[Component], most: int) -> int:
    """Returns how many elements move together: adjacent ones addressed by the same index tuple."""
    *outer, (size, index, source, place) = loops
    if (index, source, place) != (0, 1, 0):
        return 1
    return gcd(most, size, *(loop[2] for loop in outer), *(part.step for part in components))


class OneHotJob(BaseJob):
    """One value where an index matches the position along an axis, another one elsewhere."""

    def __init__(self, plan: Plan) -> None:
        indices, target, axis = plan.inputs["IndicesTensor"], plan.outputs["OutputTensor"], plan.attributes.Axis
        values = plan.inputs["ValuesTensor"]
        item = target.data_type.bits // 8
        dimensions = zip(target.sizes, indices.element_strides, target.element_strides, strict=True)
        steps = [
            (out, size, 0 if i == axis else step, int(i == axis)) for i, (size, step, out) in enumerate(dimensions)
        ]
        loops = merged((loop for _, *loop in sorted(steps, key=itemgetter(0), reverse=True)), 2)
        *outer, (size, index, place) = loops
        lanes = gcd(LOAD_BYTES // item, size) if (index, place) == (0, 1) else 1
        loops = merged([*outer, (size // lanes, index, place * lanes)], 2)
        parameter = np.zeros(1, _ONE_HOT)
        parameter["on"], parameter["size"] = _second_place(values), target.sizes[axis]
        write_walk(loops, parameter["walk"][0])
        macros = ("UNIT", UNITS[item]), ("LANES", lanes), ("INDEX", TYPES[indices.data_type])
        program = Program((*INDEX_SOURCES, "movement/one_hot"), (("STEPS", 2), depth_macro(loops), *macros))
        self._part = SplitLaunch(program, "mark", parameter, count_of(loops), THREADS * HOT_BATCH)
        self.programs = (program,)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        values, target = memory.inputs["ValuesTensor"], memory.outputs["OutputTensor"]
        return self._part.launches(values, target, memory.inputs["IndicesTensor"])


def _second_place(desc: BufferTensorDesc) -> int:
    """Returns the offset of a tensor's second element in row-major order."""
    dimensions = zip(desc.sizes, desc.element_strides, strict=True)
    return [step for size, step in dimensions if size > 1][-1]


def _pick(plan: Plan, card: Card) -> CudaJob:
    placed = on_card(plan)
    return PickJob(placed, PICKS[plan.operator.name](placed), "IndicesTensor")


def _one_hot(plan: Plan, card: Card) -> CudaJob:
    return OneHotJob(on_card(plan))


def _reverse(plan: Plan, card: Card) -> CudaJob:
    placed = on_card(plan)
    source, lengths = placed.inputs["InputTensor"], placed.inputs["SequenceLengthsTensor"]
    axis, out = plan.attributes.Axis, placed.outputs["OutputTensor"].element_strides
    points = tuple(
        Point(size, 0, 0, out[i])
        if i == axis
        else Point(size, lengths.element_strides[i], source.element_strides[i], out[i])
        for i, size in enumerate(source.sizes)
    )
    along = Component(0, source.sizes[axis], source.element_strides[axis])
    places = [int(i == axis) for i in range(source.rank)]
    return PickJob(placed, Picks(points, (along,)), "SequenceLengthsTensor", places)


JOBS = {**dict.fromkeys(PICKS, _pick), "REVERSE_SUBSEQUENCES": _reverse, "ONE_HOT": _one_hot}
