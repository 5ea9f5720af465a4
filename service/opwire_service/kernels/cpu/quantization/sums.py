"""ELEMENT_WISE_QUANTIZED_LINEAR_ADD: each pair of bytes has a single result, so large tensors use a table."""

from __future__ import annotations

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, DataType

from ....execution import Arrays, Stop
from ...error_free import two_sum
from ..run.arranged import Arrangement
from ..run.job import Job, ScratchBytes
from ..run.pool import Find, Pool
from ..run.tiles import TILE

LEAST_TABULATED = 1 << 17
"""Number of elements from which a table of all pairs is made."""

_GREAT = 2.0**20
"""Quotients of this magnitude saturate, whatever their fraction."""


class SumsJob(Job):
    """Looks results up in a table, or computes them one by one if there are few."""

    def __init__(self, plan: Plan) -> None:
        desc = plan.inputs["ATensor"]
        self._types = desc.data_type, plan.inputs["BTensor"].data_type
        self._limits = plan.outputs["OutputTensor"].data_type.limits
        self._layout = Arrangement.of(desc)
        self._many = desc.element_count >= LEAST_TABULATED
        table = (12 << 20) * self._many
        self._scratch = ScratchBytes(thread=96 * TILE, shared=table, units=self._layout.tiles.count)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        order, tiles = self._layout.order, self._layout.tiles
        a, b, target = (
            array.transpose(order) for array in (inputs["ATensor"], inputs["BTensor"], outputs["OutputTensor"])
        )
        parameters = {name: float(array.flat[0]) for name, array in inputs.items() if array is not inputs["ATensor"]}
        table = self._table(parameters).astype(target.dtype) if self._many else None

        def piece(number: int) -> None:
            at = tiles.at(number)
            if table is None:
                left, right = (np.array(each[at], np.float64, order="C") for each in (a, b))
                np.copyto(target[at], self._results(left, right, parameters), casting="unsafe")
            else:
                rows = np.left_shift(a[at].view(np.uint8), 8, dtype=np.uint16)
                target[at] = table[np.add(rows, b[at].view(np.uint8), dtype=np.uint16)]

        pool.each(piece, tiles.count, stop)

    def _table(self, parameters: dict[str, float]) -> Array:
        """Returns the result of each pair, indexed by the bits of A and then those of B."""
        a, b = (
            np.arange(256, dtype=np.uint8).view(np.int8 if each is DataType.INT8 else np.uint8).astype(np.float64)
            for each in self._types
        )
        left, right = (each.copy() for each in np.broadcast_arrays(a[:, None], b[None, :]))
        return self._results(left, right, parameters).reshape(-1)

    def _results(self, a: Array, b: Array, parameters: dict[str, float]) -> Array:
        """Computes results. Both products are exact, and so is their sum together with its rounding error."""
        with np.errstate(all="ignore"):
            for terms, name in ((a, "A"), (b, "B")):
                terms -= parameters.get(f"{name}ZeroPointTensor", 0.0)
                terms *= parameters[f"{name}ScaleTensor"]
            over = np.float64(parameters["OutputScaleTensor"])
            total, rest = two_sum(a, b)
            quotient = total / over
            below = np.floor(quotient)
            # The comparison with the next half is exact, and so is its product with the scale.
            side = np.sign((total - (below + 0.5) * over) + rest) * np.sign(over)
            even = below + (np.remainder(below, 2) != 0)
            found = np.where(side > 0, below + 1, np.where(side < 0, below, even))
            found = np.where(
                np.abs(quotient) < _GREAT, found, np.nan_to_num(quotient, nan=np.nan, posinf=1e9, neginf=-1e9)
            )
            found += parameters.get("OutputZeroPointTensor", 0.0)
            found[np.isnan(found)] = 0
            result: Array = np.clip(found, *self._limits)
        return result
