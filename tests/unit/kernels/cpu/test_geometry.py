"""The integer rows that describe loops to CPU kernels: no two fields share a slot."""

from __future__ import annotations

import pytest

from opwire_service.kernels.cpu.argreduce import parameters as argreduce
from opwire_service.kernels.cpu.reduce import parameters as reduce
from opwire_service.kernels.cpu.run import geometry as g
from opwire_service.kernels.layout import Loop, ReductionLayout

LOOPS = (
    *(g.COUNT, g.SEGMENT, g.SEGMENTS, g.RUN, g.STEP, g.RUN_LOOPS, g.KEPT_LOOPS),
    *(g.COLUMNS, g.COLUMN_STEP, g.COLUMN_TARGET, g.TILE, g.TILES),
)

FAMILIES: dict[str, tuple[int, ...]] = {
    "reduce": (reduce.RESULT, reduce.OPERATION, reduce.KIND, reduce.BOUND, reduce.SETTLE, reduce.OUTPUTS),
    "argreduce": (argreduce.INVERT, argreduce.LAST, argreduce.INDEX_SIZE, argreduce.OUTPUTS),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_slot_of_a_family_has_one_meaning(family):
    slots = (*LOOPS, *FAMILIES[family])
    assert len(set(slots)) == len(slots)
    assert all(g.PARAMETERS <= slot < g.KEPT for slot in FAMILIES[family])


@pytest.mark.parametrize("kept", range(g.MOST_LOOPS + 1))
def test_loops_of_a_tensor_of_any_rank_leave_the_parameters_alone(kept):
    loops = [Loop(size=10 + i, source=100 + i, target=1000 + i) for i in range(g.MOST_LOOPS)]
    layout = ReductionLayout(tuple(loops[:kept]), tuple(loops[kept:]))
    row = g.encode(layout, None, segment=7, tile=0)
    runs = loops[kept:-1]
    assert len(row) == g.SLOTS
    assert row[g.KEPT : g.KEPT + 3 * kept].tolist() == [number for loop in loops[:kept] for number in loop]
    assert row[g.RUNS : g.RUNS + 2 * len(runs)].tolist() == [number for loop in runs for number in loop[:2]]
    assert row[g.PARAMETERS : g.KEPT].tolist() == [0] * (g.KEPT - g.PARAMETERS)
    assert (row[g.KEPT_LOOPS], row[g.RUN_LOOPS]) == (kept, len(runs))
    assert (row[g.RUN], row[g.STEP]) == ((loops[-1].size, loops[-1].source) if kept < g.MOST_LOOPS else (1, 0))
