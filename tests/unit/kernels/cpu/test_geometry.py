"""The records that describe the loops of reductions to CPU kernels."""

from __future__ import annotations

import pytest

from opwire_service.kernels.cpu.run.geometry import MOST_LOOPS, Reduction, encode
from opwire_service.kernels.layout import Loop, ReductionLayout


@pytest.mark.parametrize("kept", range(MOST_LOOPS + 1))
def test_loops_of_a_tensor_of_any_rank_fit(kept):
    loops = [Loop(size=10 + i, source=100 + i, target=1000 + i) for i in range(MOST_LOOPS)]
    layout = ReductionLayout(tuple(loops[:kept]), tuple(loops[kept:]))
    geometry = encode(Reduction, layout, None, segment=7, tile=0)
    of_kept, of_runs = (
        [(loop.size, loop.source, loop.target) for loop in row] for row in (geometry.kept, geometry.runs)
    )
    runs = loops[kept:-1]
    assert of_kept[: geometry.kept_loops] == loops[:kept]
    assert of_runs[: geometry.run_loops] == runs
    assert (geometry.run, geometry.step) == ((loops[-1].size, loops[-1].source) if kept < MOST_LOOPS else (1, 0))
    assert (geometry.columns, geometry.tile, geometry.outputs) == (0, 0, layout.kept_count)
