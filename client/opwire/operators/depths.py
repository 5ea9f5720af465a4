"""Spatial blocks to channels, and back.

Source: the pages of ``DML_SPACE_TO_DEPTH..._OPERATOR_DESC`` and ``DML_DEPTH_TO_SPACE..._OPERATOR_DESC``. The sizes of
SPACE_TO_DEPTH follow its example, since the page gives those of its inverse.
"""

from __future__ import annotations

from typing import Any

from ..operator import Attributes, BadExample, Example, Operator, declare
from ..rules import Derived, Sizes, Values, divides, number, size
from ..violation import Code
from .work import elements_written

# The support rows require rank 4, but they are checked later, so sizes of any rank are derived.


def _deep(values: Values) -> Sizes:
    """Returns the sizes after each element of a block has become a channel."""
    block = values["BlockSize"]
    batch, channels, space = _parts(values)
    return (*batch, *((size * block * block,) for size in channels), *((max(size // block, 1),) for size in space))


def _wide(values: Values) -> Sizes:
    """Returns the sizes after channels have become the elements of a block."""
    block = values["BlockSize"]
    batch, channels, space = _parts(values)
    return (*batch, *((size // (block * block),) for size in channels), *((size * block,) for size in space))


def _parts(values: Values) -> tuple[Sizes, tuple[int, ...], tuple[int, ...]]:
    """Returns the sizes of the batch, the channels and the spatial dimensions of the input."""
    sizes = values["InputTensor"].sizes
    return tuple((size,) for size in sizes[:1]), sizes[1:2], sizes[2:]


_BLOCK = number("BlockSize")
_SPACE = [[[[0, 2, 1, 3], [4, 6, 5, 7]]]]
_DEPTH = [[[[0, 1]], [[2, 3]], [[4, 5]], [[6, 7]]]]


def _space_to_depth(name: str, **order: str) -> Operator[Attributes]:
    def desc(block: int, *sizes: int) -> dict[str, Any]:
        return {"InputTensor": {"DataType": "UINT32", "Sizes": sizes}, "BlockSize": block, **order}

    return declare(
        name,
        rules=(divides(_BLOCK, size("InputTensor", 2)), divides(_BLOCK, size("InputTensor", 3))),
        outputs={"OutputTensor": Derived(_deep, like="InputTensor")},
        work=elements_written,
        examples=(Example("blocks_of_2", desc(2, 1, 1, 2, 4), {"InputTensor": _SPACE}, {"OutputTensor": _DEPTH}),),
        bad_examples=(
            BadExample("half_a_block", desc(2, 1, 1, 4, 5), Code.SIZES_MISMATCH, "/InputTensor/Sizes"),
            BadExample("blocks_of_0", desc(0, 1, 1, 4, 4), Code.OUT_OF_RANGE, "/BlockSize"),
        ),
    )


def _depth_to_space(name: str, **order: str) -> Operator[Attributes]:
    def desc(block: int, *sizes: int) -> dict[str, Any]:
        return {"InputTensor": {"DataType": "UINT32", "Sizes": sizes}, "BlockSize": block, **order}

    return declare(
        name,
        rules=(divides(_BLOCK * _BLOCK, size("InputTensor", 1)),),
        outputs={"OutputTensor": Derived(_wide, like="InputTensor")},
        work=elements_written,
        examples=(Example("blocks_of_2", desc(2, 1, 4, 1, 2), {"InputTensor": _DEPTH}, {"OutputTensor": _SPACE}),),
        bad_examples=(BadExample("half_a_block", desc(2, 1, 6, 1, 2), Code.SIZES_MISMATCH, "/InputTensor/Sizes"),),
    )


DEPTHS = (
    _space_to_depth("SPACE_TO_DEPTH"),
    _depth_to_space("DEPTH_TO_SPACE"),
    _depth_to_space("DEPTH_TO_SPACE1", Order="DEPTH_COLUMN_ROW"),
    _space_to_depth("SPACE_TO_DEPTH1", Order="DEPTH_COLUMN_ROW"),
)
