"""Resampling along any dimensions, and its gradients.

Source: the pages of the ``DML_RESAMPLE..._OPERATOR_DESC`` structs and of ``DML_UPSAMPLE_2D_OPERATOR_DESC``. The scales
of RESAMPLE define how coordinates are mapped, but not the sizes of the output, which must always be given.
"""

from __future__ import annotations

from math import ceil, isfinite, prod
from typing import Any

from ..enums import InterpolationMode
from ..operator import Attributes, BadExample, Example, Operator, Tensors, declare
from ..rules import (
    Derived,
    Rule,
    Sizes,
    Undecided,
    Values,
    at_least,
    between,
    length_is,
    observed,
    part,
    rank,
    same_rank,
    same_type,
    size,
    term,
)
from ..violation import Code
from .work import elements_written

_MOST = 2**32 - 1

_LEAST_SCALE = 2.0**-23
"""The least scale that DirectML takes."""


def _taps(attributes: Attributes, sizes: tuple[int, ...]) -> int:
    """Returns the number of input elements per output element, regardless of its position."""
    if attributes.InterpolationMode is InterpolationMode.NEAREST_NEIGHBOR:
        return 1
    if not getattr(attributes, "Antialiased", False):
        return prod(min(extent, 2) for extent in sizes)
    pairs = zip(sizes, attributes.Scales, strict=True)
    return prod(min(extent, ceil(2 / scale) + 1 if scale < 0.5 else 2) for extent, scale in pairs)


def _work(attributes: Attributes, tensors: Tensors) -> int:
    """Each output element visits the elements that it is computed from."""
    return elements_written(attributes, tensors) * _taps(attributes, tensors["InputTensor"].sizes)


def _gradient_work(attributes: Attributes, tensors: Tensors) -> int:
    """Each input element is added to the elements that it was computed from, which are first set to zero.

    If its coordinate may be NaN, for offsets that are not finite, these may be all.
    """
    source, result = tensors["InputGradientTensor"], tensors["OutputGradientTensor"]
    offsets = zip(attributes.InputPixelOffsets, attributes.OutputPixelOffsets, result.sizes, strict=True)
    all_of = prod(size for into, out, size in offsets if not isfinite(into + out))
    return int(result.element_count + source.element_count * _taps(attributes, result.sizes) * all_of)


def _resampling(
    name: str,
    source: str = "InputTensor",
    result: str = "OutputTensor",
    *,
    examples: tuple[Example, ...],
    bad_examples: tuple[BadExample, ...],
) -> Operator[Attributes]:
    rules: tuple[Rule, ...] = (
        same_type(source, result),
        same_rank(source, result),
        length_is(rank(source), "Scales"),
        *observed(at_least(_LEAST_SCALE, "Scales")),
    )
    return declare(
        name,
        rules=rules,
        outputs={result: Undecided()},
        work=_work if result == "OutputTensor" else _gradient_work,
        examples=examples,
        bad_examples=bad_examples,
    )


def _desc(sizes: list[int], output: list[int] | None, scales: list[float], **attributes: object) -> dict[str, object]:
    return {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": sizes},
        "OutputTensor": None if output is None else {"DataType": "FLOAT32", "Sizes": output},
        "InterpolationMode": "NEAREST_NEIGHBOR",
        "Scales": scales,
        **attributes,
    }


def _offsets(source: float, output: float, **attributes: object) -> dict[str, object]:
    """Returns pixel offsets for two dimensions."""
    return {"InputPixelOffsets": [source] * 2, "OutputPixelOffsets": [output] * 2, **attributes}


def _examples(**attributes: Any) -> tuple[Example, ...]:
    """Returns examples that enlarge rows, with the offsets of pixel centers."""
    mode = {"InterpolationMode": "LINEAR"}
    return (
        Example(
            "the_nearest",
            _desc([1, 2], [1, 4], [1, 2], **attributes),
            {"InputTensor": [[1, 5]]},
            {"OutputTensor": [[1, 1, 5, 5]]},
        ),
        Example(
            "between_two",
            _desc([1, 2], [1, 4], [1, 2], **{**attributes, **mode}),
            {"InputTensor": [[1, 5]]},
            {"OutputTensor": [[1, 2, 4, 5]]},
        ),
    )


def _bad_examples(**attributes: Any) -> tuple[BadExample, ...]:
    return (
        BadExample("scale_of_zero", _desc([1, 2], [1, 4], [1, 0], **attributes), Code.OUT_OF_RANGE, "/Scales/1"),
        BadExample("output_left_out", _desc([1, 2], None, [1, 2], **attributes), Code.MISSING_FIELD, ""),
    )


def _gradient(name: str, page: str, **attributes: object) -> Operator[Attributes]:
    """Declares a gradient. Its worked example shrinks the height and enlarges the width."""

    def desc(scales: list[float]) -> dict[str, object]:
        return {
            "InputGradientTensor": {"DataType": "FLOAT32", "Sizes": [1, 3]},
            "OutputGradientTensor": {"DataType": "FLOAT32", "Sizes": [2, 2]},
            "InterpolationMode": "NEAREST_NEIGHBOR",
            "Scales": scales,
            **attributes,
        }

    return _resampling(
        name,
        "InputGradientTensor",
        "OutputGradientTensor",
        examples=(
            Example(
                "what_is_read_twice_adds_up",
                desc([0.5, 1.5]),
                {"InputGradientTensor": [[4, 5, 6]]},
                {"OutputGradientTensor": [[9, 6], [0, 0]]},
                source=f"{page}, worked example",
            ),
        ),
        bad_examples=(BadExample("negative_scale", desc([-0.5, 1.5]), Code.OUT_OF_RANGE, "/Scales/0"),),
    )


def _upsampled(values: Values) -> Sizes | None:
    if values["InputTensor"].rank < 2:
        return None
    *outer, height, width = values["InputTensor"].sizes
    factors = values["ScaleSize"]
    return *((extent,) for extent in outer), (height * factors.Height,), (width * factors.Width,)


def _upsampling_work(attributes: Attributes, tensors: Tensors) -> int:
    return elements_written(attributes, tensors) * _taps(attributes, tensors["InputTensor"].sizes[-2:])


def _factors(width: int, height: int, **changes: object) -> dict[str, object]:
    return {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 2]},
        "ScaleSize": {"Width": width, "Height": height},
        "InterpolationMode": "NEAREST_NEIGHBOR",
        **changes,
    }


_UPSAMPLING = declare(
    "UPSAMPLE_2D",
    rules=(
        between(part("ScaleSize", "Height"), 1, term(_MOST) // size("InputTensor", -2)),
        between(part("ScaleSize", "Width"), 1, term(_MOST) // size("InputTensor", -1)),
    ),
    outputs={"OutputTensor": Derived(_upsampled, like="InputTensor")},
    work=_upsampling_work,
    examples=(
        Example(
            "repeated",
            _factors(2, 2),
            {"InputTensor": [[[[1, 5]]]]},
            {"OutputTensor": [[[[1, 1, 5, 5], [1, 1, 5, 5]]]]},
        ),
        Example(
            "between_two",
            _factors(2, 1, InterpolationMode="LINEAR"),
            {"InputTensor": [[[[1, 5]]]]},
            {"OutputTensor": [[[[1, 2, 4, 5]]]]},
        ),
    ),
    bad_examples=(
        BadExample("no_width", _factors(0, 1), Code.OUT_OF_RANGE, "/ScaleSize/Width"),
        BadExample(
            "output_that_is_not_scaled",
            _factors(2, 1, OutputTensor={"DataType": "FLOAT32", "Sizes": [1, 1, 1, 2]}),
            Code.SIZES_MISMATCH,
            "/OutputTensor/Sizes/3",
        ),
    ),
)

_CENTERS = _offsets(0.5, -0.5)
# With rounding down, the same choice takes an input offset that is half a pixel less.
_ROUNDED = _offsets(0.5, -0.5, RoundingDirection="DECREASING")


def _rounded(**attributes: object) -> tuple[Example, ...]:
    """Returns the examples with offsets for rounding down in ``the_nearest``."""
    nearest, linear = _examples(**_ROUNDED, **attributes)
    lower = {**nearest.desc, **_offsets(0, -0.5)}
    return Example(nearest.name, lower, nearest.inputs, nearest.outputs), linear


_ANTIALIASED = Example(
    "antialiased",
    _desc([1, 4], [1, 1], [1, 0.25], **_ROUNDED, InterpolationMode="LINEAR", Antialiased=True),
    {"InputTensor": [[1, 2, 4, 8]]},
    {"OutputTensor": [[3.84375]]},
)

FAMILY = (
    _UPSAMPLING,
    _resampling("RESAMPLE", examples=_examples(), bad_examples=_bad_examples()),
    _resampling("RESAMPLE1", examples=_examples(**_CENTERS), bad_examples=_bad_examples(**_CENTERS)),
    _gradient("RESAMPLE_GRAD", "DML_RESAMPLE_GRAD_OPERATOR_DESC", **_offsets(0, 0.5)),
    _resampling("RESAMPLE2", examples=_rounded(), bad_examples=_bad_examples(**_ROUNDED)),
    _gradient("RESAMPLE_GRAD1", "DML_RESAMPLE_GRAD1_OPERATOR_DESC", **_offsets(0, 0, RoundingDirection="DECREASING")),
    _resampling(
        "RESAMPLE3",
        examples=(*_rounded(Antialiased=False), _ANTIALIASED),
        bad_examples=_bad_examples(**_ROUNDED, Antialiased=False),
    ),
)
