"""Spatial blocks to channels and back: the channels of a block are its rows, its columns and the depth."""

from __future__ import annotations

from opwire.check import Plan
from opwire.enums import DepthSpaceOrder

from ...execution import Arrays, Stop
from .moves import Coordinate, move


def run_space_to_depth(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, block = inputs["InputTensor"], plan.attributes.BlockSize

    def place(coordinate: Coordinate) -> Coordinate:
        image, channel, y, x = coordinate
        depth, row, column = _parts(plan, channel, source.shape[1])
        return image, depth, y * block + row, x * block + column

    move(source, outputs["OutputTensor"], place, stop)


def run_depth_to_space(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    target, block = outputs["OutputTensor"], plan.attributes.BlockSize

    def place(coordinate: Coordinate) -> Coordinate:
        image, depth, y, x = coordinate
        channel = _channel(plan, depth, y % block, x % block, target.shape[1])
        return image, channel, y // block, x // block

    move(inputs["InputTensor"], target, place, stop)


def _parts(plan: Plan, channel: int, depths: int) -> tuple[int, int, int]:
    """Returns the depth, row and column that a channel represents."""
    block = plan.attributes.BlockSize
    if _is_depth_first(plan):
        within, depth = divmod(channel, depths)
    else:
        depth, within = divmod(channel, block * block)
    return depth, within // block, within % block


def _channel(plan: Plan, depth: int, row: int, column: int, depths: int) -> int:
    block = plan.attributes.BlockSize
    within: int = row * block + column
    return within * depths + depth if _is_depth_first(plan) else depth * block * block + within


def _is_depth_first(plan: Plan) -> bool:
    """Returns whether adjacent channels differ in depth, which is the default order."""
    order = getattr(plan.attributes, "Order", DepthSpaceOrder.DEPTH_COLUMN_ROW)
    return bool(order == DepthSpaceOrder.DEPTH_COLUMN_ROW)


KERNELS = {
    "SPACE_TO_DEPTH": run_space_to_depth,
    "SPACE_TO_DEPTH1": run_space_to_depth,
    "DEPTH_TO_SPACE": run_depth_to_space,
    "DEPTH_TO_SPACE1": run_depth_to_space,
}
