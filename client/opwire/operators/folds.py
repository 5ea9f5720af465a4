"""Blocks of an image to columns, and back.

Source: ``DML_FOLD_OPERATOR_DESC``, ``DML_UNFOLD_OPERATOR_DESC``. Both pages require equal ranks, but their examples
have columns of rank 3 with images of rank 4, as DirectML does. It ignores dimensions of the image behind the folded
ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from ..operator import Attributes, BadExample, Example, Tensors, declare
from ..rules import Derived, Rule, Sizes, Undecided, Values, at_least, between, computable, length, rank, same_type
from ..violation import Code, Fault
from .work import elements_written

_MAX_DIMENSIONS = 6
_ARRAYS = ("WindowSizes", "Strides", "Dilations", "StartPadding", "EndPadding")


@dataclass(frozen=True, slots=True)
class Folding:
    """The blocks of an image, given the name of the image tensor."""

    image: str

    @property
    def reads(self) -> frozenset[str]:
        return frozenset((self.image, *_ARRAYS))

    def has_rank(self, values: Values) -> bool:
        """Returns whether the image has a batch, channels and the folded dimensions; true if those are too many."""
        count = len(values["WindowSizes"])
        return count > _MAX_DIMENSIONS or bool(values[self.image].rank >= count + 2)

    def blocks(self, values: Values) -> list[int]:
        """Returns the number of blocks along each dimension, less than 1 if none fits; empty if the rank is too low."""
        count = len(values["WindowSizes"])
        folded = values[self.image].sizes[2:][:count]
        if len(folded) < count or count > _MAX_DIMENSIONS:
            return []
        numbers = zip(folded, *(values[name] for name in _ARRAYS), strict=True)
        return [
            (size + start + end - dilation * (window - 1) - 1) // stride + 1
            for size, window, stride, dilation, start, end in numbers
        ]

    def columns(self, values: Values) -> Sizes:
        """Returns the sizes of the columns; a column is a block of all channels."""
        batch, channels = values[self.image].sizes[:2]
        return (batch,), (channels * prod(values["WindowSizes"]),), (prod(self.blocks(values)),)


@dataclass(frozen=True, slots=True)
class ImageHasRank(Rule):
    """The image has a batch, channels and the folded dimensions."""

    code = Code.RANKS_DIFFER

    folding: Folding

    @property
    def reads(self) -> frozenset[str]:
        return frozenset((self.folding.image, "WindowSizes"))

    def faults(self, values: Values) -> Iterator[Fault]:
        if not self.folding.has_rank(values):
            image, least = self.folding.image, len(values["WindowSizes"]) + 2
            message = (
                f"{image} has rank {values[image].rank}; blocks of {least - 2} dimensions require at least {least}"
            )
            yield Fault(self.code, (image, "Sizes"), message, list(range(least, 9)))


@dataclass(frozen=True, slots=True)
class BlockFits(Rule):
    """The dilated block is no larger than the padded image."""

    code = Code.WINDOW_TOO_LARGE

    folding: Folding

    def faults(self, values: Values) -> Iterator[Fault]:
        for i, blocks in enumerate(self.folding.blocks(values)):
            if blocks < 1:
                covered = values["Dilations"][i] * (values["WindowSizes"][i] - 1) + 1
                message = f"a dilated block spans {covered} positions, more than the padded image has"
                yield Fault(self.code, ("WindowSizes", i), message)


@dataclass(frozen=True, slots=True)
class ColumnsFit(Rule):
    """The columns match the blocks of the image in length and number."""

    code = Code.SIZES_MISMATCH

    folding: Folding
    columns: str

    def faults(self, values: Values) -> Iterator[Fault]:
        blocks = self.folding.blocks(values)
        if not blocks or min(blocks) < 1:
            return
        for i, (size, (right,)) in enumerate(
            zip(values[self.columns].sizes, self.folding.columns(values), strict=True)
        ):
            if size != right:
                message = f"size {size} given for dimension {i} of {self.columns}; with these blocks it must be {right}"
                yield Fault(self.code, (self.columns, "Sizes", i), message, [right])


def _blocks(image: str) -> tuple[Rule, ...]:
    folding = Folding(image)
    return (
        between(length("WindowSizes"), 1, _MAX_DIMENSIONS),
        ImageHasRank(folding),
        *computable(between(rank(image), None, length("WindowSizes") + 2), at_least(1, "Dilations")),
        BlockFits(folding),
    )


def _summing(attributes: Attributes, tensors: Tensors) -> int:
    """Each element of the columns is added to one of the image."""
    return elements_written(attributes, tensors) + int(tensors["InputTensor"].element_count)


def _desc(source: list[int], output: list[int] | None, windows: list[int], **changes: Any) -> dict[str, Any]:
    n = len(windows)
    return {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": source},
        "OutputTensor": None if output is None else {"DataType": "FLOAT32", "Sizes": output},
        "WindowSizes": windows,
        "Strides": [1] * n,
        "Dilations": [1] * n,
        "StartPadding": [0] * n,
        "EndPadding": [0] * n,
        **changes,
    }


FOLDS = (
    declare(
        "FOLD",
        rules=(
            *_blocks("OutputTensor"),
            same_type("InputTensor", "OutputTensor"),
            ColumnsFit(Folding("OutputTensor"), "InputTensor"),
        ),
        outputs={"OutputTensor": Undecided()},
        work=_summing,
        examples=(
            Example(
                "overlapping_blocks",
                _desc([1, 9, 4], [1, 1, 4, 4], [3, 3]),
                {"InputTensor": [[[4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3] for i in range(9)]]},
                {"OutputTensor": [[[[0, 5, 13, 9], [14, 38, 54, 32], [38, 86, 102, 56], [26, 57, 65, 35]]]]},
                source="DML_FOLD_OPERATOR_DESC, worked example",
            ),
        ),
        bad_examples=(
            BadExample("without_output", _desc([1, 9, 4], None, [3, 3]), Code.MISSING_FIELD, ""),
            BadExample(
                "too_many_columns", _desc([1, 9, 5], [1, 1, 4, 4], [3, 3]), Code.SIZES_MISMATCH, "/InputTensor/Sizes/2"
            ),
        ),
    ),
    declare(
        "UNFOLD",
        rules=_blocks("InputTensor"),
        outputs={"OutputTensor": Derived(Folding("InputTensor").columns, like="InputTensor")},
        work=elements_written,
        examples=(
            Example(
                "blocks",
                _desc([1, 1, 3, 3], [1, 4, 4], [2, 2]),
                {"InputTensor": [[[[0, 1, 2], [3, 4, 5], [6, 7, 8]]]]},
                {"OutputTensor": [[[0, 1, 3, 4], [1, 2, 4, 5], [3, 4, 6, 7], [4, 5, 7, 8]]]},
            ),
        ),
        bad_examples=(
            BadExample("block_too_large", _desc([1, 1, 3, 3], None, [2, 4]), Code.WINDOW_TOO_LARGE, "/WindowSizes/1"),
            BadExample("too_few_dimensions", _desc([1, 3, 3], None, [2, 2]), Code.RANKS_DIFFER, "/InputTensor/Sizes"),
        ),
    ),
)
