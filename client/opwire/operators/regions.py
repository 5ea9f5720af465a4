"""Regions of interest, cropped from images and resized to one size.

Source: the pages of the ``DML_ROI_..._OPERATOR_DESC`` structs. The output sizes of ROI_POOLING are derived; those of
the others must be given.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..enums import InterpolationMode, ReduceFunction
from ..operator import Attributes, BadExample, Example, Operator, Tensors, declare
from ..rules import (
    Derived,
    Rule,
    Shapes,
    Sizes,
    Undecided,
    Values,
    any_given,
    between,
    finite_or_nan,
    like,
    number,
    observed,
    one_of,
    part,
    required,
    same_type,
    shapes,
    size,
    term,
    when,
    with_tensor,
)
from ..rules.shapes import Shape
from ..violation import Code
from .work import elements_written

_PER_REGION: Mapping[str, Shape] = {"ROITensor": (..., "regions", 4), "BatchIndicesTensor": (..., "regions")}
"""A region is a row of four coordinates; leading dimensions are 1."""

_SAMPLED = (
    one_of("ReductionFunction", ReduceFunction.AVERAGE, ReduceFunction.MAX),
    between(number("MaximumSamplesPerOutput"), number("MinimumSamplesPerOutput"), None),
    *observed(finite_or_nan("SpatialScaleX", "SpatialScaleY", least=0)),
)


def _countable(crop: str) -> tuple[Rule, ...]:
    """The least numbers of samples along the crop are numbers of 32 bits."""
    least = number("MinimumSamplesPerOutput")
    return observed(*(between(least, None, term(2**32 - 1) // size(crop, i)) for i in (2, 3)))


def _samples(attributes: Attributes, image: tuple[int, ...], crop: tuple[int, ...]) -> int:
    """Returns the element visits per element of the crop, for a region as large as the image.

    The size of a region depends on values; the part of it outside the image has no elements to visit.
    """
    least, most = attributes.MinimumSamplesPerOutput, attributes.MaximumSamplesPerOutput
    pairs = zip(image[2:], crop[2:], strict=True)
    samples = prod(min(max(-(-whole // part), least), most) for whole, part in pairs)
    return samples * (1 if attributes.InterpolationMode is InterpolationMode.NEAREST_NEIGHBOR else 4)


def _align_work(attributes: Attributes, tensors: Tensors) -> int:
    crop = tensors["OutputTensor"].sizes
    return elements_written(attributes, tensors) * _samples(attributes, tensors["InputTensor"].sizes, crop)


def _gradient_work(attributes: Attributes, tensors: Tensors) -> int:
    """Each gradient is added to the elements that its output was computed from, for each requested output."""
    crop, written = tensors["InputGradientTensor"], tensors["OutputGradientTensor"]
    image = tensors["InputTensor"] or written
    samples = crop.element_count * _samples(attributes, image.sizes, crop.sizes)
    of_image = 0 if written is None else written.element_count + samples
    return int(of_image + (0 if tensors["OutputROIGradientTensor"] is None else samples))


_IMAGE = [[[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]]]
_QUARTERS = [[0, 0, 2, 2], [2, 0, 4, 2], [0, 2, 2, 4], [2, 2, 4, 4]]
_PAGE = "DML_ROI_ALIGN_GRAD_OPERATOR_DESC, worked example"


def _desc(name: str, **changes: object) -> dict[str, object]:
    offsets = {"InputPixelOffset": 0.5, "OutputPixelOffset": 0, "AlignRegionsToCorners": False}
    desc: dict[str, object] = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 4, 4]},
        "ROITensor": {"DataType": "FLOAT32", "Sizes": [4, 4]},
        "BatchIndicesTensor": {"DataType": "UINT32", "Sizes": [4]},
        "ReductionFunction": "AVERAGE",
        "InterpolationMode": "NEAREST_NEIGHBOR",
        "SpatialScaleX": 1,
        "SpatialScaleY": 1,
        "MinimumSamplesPerOutput": 1,
        "MaximumSamplesPerOutput": 1,
        **({} if name == "ROI_ALIGN" else offsets),
    }
    if name == "ROI_ALIGN_GRAD":
        desc["InputGradientTensor"] = {"DataType": "FLOAT32", "Sizes": [4, 1, 1, 3]}
    else:
        desc |= {"OutOfBoundsInputValue": 0, "OutputTensor": {"DataType": "FLOAT32", "Sizes": [4, 1, 1, 3]}}
    return desc | changes


def _align(name: str, example: Example) -> Operator[Attributes]:
    return declare(
        name,
        rules=(
            same_type("InputTensor", "ROITensor"),
            Shapes(_PER_REGION),
            *_SAMPLED,
            *_countable("OutputTensor"),
            same_type("InputTensor", "OutputTensor"),
            shapes(OutputTensor=(size("ROITensor", -2), size("InputTensor", 1), "height", "width")),
        ),
        outputs={"OutputTensor": Undecided()},
        work=_align_work,
        examples=(example,),
        bad_examples=(
            BadExample(
                "sum_of_the_samples", _desc(name, ReductionFunction="SUM"), Code.VALUE_NOT_ALLOWED, "/ReductionFunction"
            ),
            BadExample(
                "fewer_indices_than_regions",
                _desc(name, BatchIndicesTensor={"DataType": "UINT32", "Sizes": [3]}),
                Code.SIZES_MISMATCH,
                "/BatchIndicesTensor/Sizes/0",
            ),
            BadExample("output_left_out", _desc(name, OutputTensor=None), Code.MISSING_FIELD, ""),
        ),
    )


_REGIONS = {"InputTensor": _IMAGE, "ROITensor": _QUARTERS, "BatchIndicesTensor": [0, 0, 0, 0]}

_GRADIENT = declare(
    "ROI_ALIGN_GRAD",
    rules=(
        same_type("InputGradientTensor", "InputTensor", "ROITensor"),
        Shapes(
            {
                **_PER_REGION,
                "InputGradientTensor": ("regions", "channels", "out_height", "out_width"),
                "InputTensor": ("batch", "channels", "height", "width"),
            }
        ),
        *_SAMPLED,
        *_countable("InputGradientTensor"),
        when("ReductionFunction", ReduceFunction.MAX, required("InputTensor")),
        with_tensor("OutputROIGradientTensor", required("InputTensor")),
        any_given("OutputGradientTensor", "OutputROIGradientTensor"),
        same_type("InputGradientTensor", "OutputGradientTensor"),
        shapes(
            InputTensor=("batch", "channels", "height", "width"),
            OutputGradientTensor=("batch", size("InputGradientTensor", 1), "height", "width"),
        ),
    ),
    outputs={"OutputGradientTensor": Undecided(), "OutputROIGradientTensor": like("ROITensor")},
    work=_gradient_work,
    examples=(
        Example(
            "what_is_read_twice_adds_up",
            _desc("ROI_ALIGN_GRAD", OutputGradientTensor={"DataType": "FLOAT32", "Sizes": [1, 1, 4, 4]}),
            {**_REGIONS, "InputGradientTensor": [[[[1, 2, 3]]], [[[4, 5, 6]]], [[[7, 8, 9]]], [[[10, 11, 12]]]]},
            {"OutputGradientTensor": [[[[3, 3, 9, 6], [0, 0, 0, 0], [15, 9, 21, 12], [0, 0, 0, 0]]]]},
            source=_PAGE,
        ),
    ),
    bad_examples=(
        BadExample("no_output", _desc("ROI_ALIGN_GRAD"), Code.MISSING_TENSOR, ""),
        BadExample(
            "gradient_of_regions_without_an_input",
            _desc("ROI_ALIGN_GRAD", InputTensor=None, OutputROIGradientTensor={"DataType": "FLOAT32", "Sizes": [4, 4]}),
            Code.MISSING_TENSOR,
            "",
        ),
    ),
)


def _pooled(values: Values) -> Sizes | None:
    if values["InputTensor"].rank < 2:
        return None
    pooled = values["PooledSize"]
    channels, regions = values["InputTensor"].sizes[1], values["ROITensor"].sizes[2]
    return (regions,), (channels,), (pooled.Height,), (pooled.Width,)


def _pooling_work(attributes: Attributes, tensors: Tensors) -> int:
    """Each region visits at most every element of an image, and writes its output."""
    regions: int = tensors["ROITensor"].sizes[2]
    image: int = prod(tensors["InputTensor"].sizes[1:])
    return elements_written(attributes, tensors) + regions * image


def _pooling_desc(width: int, height: int, **changes: object) -> dict[str, object]:
    return {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 4, 4]},
        "ROITensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 5]},
        "SpatialScale": 1,
        "PooledSize": {"Width": width, "Height": height},
        **changes,
    }


_POOLING = declare(
    "ROI_POOLING",
    rules=(
        same_type("InputTensor", "ROITensor"),
        shapes(ROITensor=(1, 1, "regions", 5)),
        between(part("PooledSize", "Height"), 1, None),
        between(part("PooledSize", "Width"), 1, None),
    ),
    outputs={"OutputTensor": Derived(_pooled, like="InputTensor")},
    work=_pooling_work,
    examples=(
        Example(
            "two_bins_each",
            _pooling_desc(2, 1),
            {"InputTensor": _IMAGE, "ROITensor": [[[[0, 0, 0, 1, 1], [0, 0, 1, 3, 3]]]]},
            {"OutputTensor": [[[[5, 6]]], [[[14, 16]]]]},
        ),
    ),
    bad_examples=(
        BadExample("no_bins", _pooling_desc(2, 0), Code.OUT_OF_RANGE, "/PooledSize/Height"),
        BadExample(
            "regions_without_an_image",
            _pooling_desc(2, 1, ROITensor={"DataType": "FLOAT32", "Sizes": [1, 1, 2, 4]}),
            Code.SIZES_MISMATCH,
            "/ROITensor/Sizes/3",
        ),
    ),
)

FAMILY = (
    _POOLING,
    _align(
        "ROI_ALIGN",
        Example(
            "the_center_of_each_quarter",
            _desc("ROI_ALIGN", OutputTensor={"DataType": "FLOAT32", "Sizes": [4, 1, 1, 1]}),
            _REGIONS,
            {"OutputTensor": [[[[6]]], [[[8]]], [[[14]]], [[[16]]]]},
        ),
    ),
    _align(
        "ROI_ALIGN1",
        Example(
            "wider_and_lower",
            _desc("ROI_ALIGN1"),
            _REGIONS,
            {"OutputTensor": [[[[1, 1, 2]]], [[[3, 3, 4]]], [[[9, 9, 10]]], [[[11, 11, 12]]]]},
            source=_PAGE,
        ),
    ),
    _GRADIENT,
)
