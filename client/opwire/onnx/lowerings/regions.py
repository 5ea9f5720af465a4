"""Pooling of regions of interest."""

from __future__ import annotations

from typing import Any

from ...client.graph_tensors import GraphTensor
from ...tensor import DataType
from ..errors import NotLowered
from ..lowering import NodeLowering, lowers

_UNLIMITED = 2**32 - 1


@lowers("MaxRoiPool")
def max_roi_pool(node: NodeLowering) -> GraphTensor:
    height, width = node.attribute("pooled_shape")
    x, regions = node.tensor(0), node.lifted(1)
    return node.emit(
        "ROI_POOLING",
        InputTensor=x,
        ROITensor=regions,
        OutputTensor=node.desc(x.data_type, (regions.sizes[2], x.sizes[1], height, width)),
        SpatialScale=node.attribute("spatial_scale", 1.0),
        PooledSize={"Height": height, "Width": width},
    )


@lowers("RoiAlign")
def roi_align(node: NodeLowering) -> GraphTensor:
    """Lowers means of samples of regions; ROI_ALIGN has the pixel offsets of half_pixel."""
    if node.attribute("mode", "avg").lower() != "avg":
        raise NotLowered("its maximum is one of weighted neighbours; that of DirectML is one of samples")
    x, rois, batch = node.tensor(0), node.lifted(1), node.lifted(2)
    shared: dict[str, Any] = {
        "InputTensor": x,
        "BatchIndicesTensor": node.cast(batch, DataType.UINT32),
        "OutputTensor": node.desc(x.data_type, _aligned(node, rois, x)),
        "ReductionFunction": "AVERAGE",
        "InterpolationMode": "LINEAR",
        "OutOfBoundsInputValue": 0.0,
        **_samples(node),
    }
    # Before version 16 there was no other mode than the later output_half_pixel.
    if node.attribute("coordinate_transformation_mode", "output_half_pixel").lower() == "half_pixel":
        return node.emit("ROI_ALIGN", ROITensor=rois, **shared)
    return node.emit(
        "ROI_ALIGN1",
        ROITensor=_not_too_small(node, rois),
        InputPixelOffset=0.0,
        OutputPixelOffset=-0.5,
        AlignRegionsToCorners=False,
        **shared,
    )


def _aligned(node: NodeLowering, rois: GraphTensor, x: GraphTensor) -> tuple[int, ...]:
    height, width = node.attribute("output_height", 1), node.attribute("output_width", 1)
    return rois.sizes[2], x.sizes[1], int(height), int(width)


def _samples(node: NodeLowering) -> dict[str, Any]:
    """Returns the limits of samples per output: as many as are given, or as the size of the region asks for."""
    count, scale = int(node.attribute("sampling_ratio", 0)), float(node.attribute("spatial_scale", 1.0))
    limits = (count, count) if count > 0 else (1, _UNLIMITED)
    named = dict(zip(("MinimumSamplesPerOutput", "MaximumSamplesPerOutput"), limits, strict=True))
    return {"SpatialScaleX": scale, "SpatialScaleY": scale, **named}


def _not_too_small(node: NodeLowering, rois: GraphTensor) -> GraphTensor:
    """Returns regions that are at least one pixel wide and high, at the place of their first corner."""
    first, last = (_corner(node, rois, at) for at in (0, 2))
    pixel = {"Scale": 1.0, "Bias": 1.0 / float(node.attribute("spatial_scale", 1.0))}
    least = node.emit("ELEMENT_WISE_IDENTITY", InputTensor=first, ScaleBias=pixel)
    kept = node.emit("ELEMENT_WISE_MAX", ATensor=last, BTensor=least)
    return node.emit("JOIN", InputTensors=[first, kept], Axis=3)


def _corner(node: NodeLowering, rois: GraphTensor, at: int) -> GraphTensor:
    sizes = [*rois.sizes[:3], 2]
    return node.emit("SLICE", InputTensor=rois, Offsets=[0, 0, 0, at], Sizes=sizes, Strides=[1, 1, 1, 1])
