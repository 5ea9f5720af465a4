"""MAX_POOLING, MAX_POOLING1 and MAX_POOLING2: the greatest element of each window.

Source: the pages of the three descs. The declared size of the output decides between floor and ceiling rounding, and
the window is the dilated one in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ..level import FeatureLevel, Limits, Row, Rows
from ..operator import (
    ArrayField,
    BadExample,
    Code,
    CountField,
    Example,
    Fault,
    Field,
    Operator,
    OutputRule,
    Role,
    TensorField,
    Tensors,
)
from ..tensor import ALL_INTEGERS, FLOATS, INTEGERS_8, DataType


@dataclass(frozen=True, slots=True)
class MaxPooling:
    """The attributes of the three operators, one number per spatial dimension; no dilations are all 1."""

    Strides: tuple[int, ...]
    WindowSize: tuple[int, ...]
    StartPadding: tuple[int, ...]
    EndPadding: tuple[int, ...]
    Dilations: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.Dilations:
            object.__setattr__(self, "Dilations", (1,) * len(self.WindowSize))

    def dimensions(self, sizes: tuple[int, ...]) -> Iterator[Dimension]:
        """The spatial dimensions of an input, outermost first."""
        for members in zip(
            sizes[2:],
            self.Strides,
            self.WindowSize,
            self.StartPadding,
            self.EndPadding,
            self.Dilations,
            strict=True,
        ):
            yield Dimension(*members)


@dataclass(frozen=True, slots=True)
class Dimension:
    """One spatial dimension: window ``o`` covers the positions ``o*stride - start + k*dilation``, k < window."""

    size: int
    stride: int
    window: int
    start: int
    end: int
    dilation: int

    @property
    def padded(self) -> int:
        return self.size + self.start + self.end

    @property
    def dilated_window(self) -> int:
        return 1 + (self.window - 1) * self.dilation

    @property
    def output_sizes(self) -> tuple[int, ...]:
        """The floor size and, where it differs, the ceiling size."""
        room = self.padded - self.dilated_window
        return tuple(dict.fromkeys((room // self.stride + 1, -(-room // self.stride) + 1)))

    def elements_visited(self, count: int) -> int:
        """How many elements the first ``count`` windows have together, without the padding."""
        return self._visited_below(count, self.start + self.size) - self._visited_below(count, self.start)

    def _visited_below(self, count: int, bound: int) -> int:
        """How many positions below a bound, of the padded input, the first ``count`` windows have together."""
        reached = _count_below(count, self.stride, bound)
        whole = _count_below(count, self.stride, bound - (self.dilated_window - 1))
        # The last window that reaches below the bound has a positions there, the one before it stride more, and so on.
        last = bound - 1 - (reached - 1) * self.stride
        cut = reached - whole
        return whole * self.window + cut + _floor_sum(cut, self.dilation, self.stride, last)

    def windows_with_element(self, count: int) -> int:
        """How many of the first ``count`` windows reach an element of the input.

        A window that begins inside does. One that begins in the padding reaches position ``begin mod dilation`` first,
        provided that it is long enough.
        """
        inside = _count_below(count, self.stride, self.start + self.size) - _count_below(count, self.stride, self.start)
        before = _count_below(count, self.stride, self.start)
        too_short = _count_below(before, self.stride, self.start - (self.dilated_window - 1))
        reach = _count_residues(before, self.stride, -self.start, self.dilation, self.size)
        reach -= _count_residues(too_short, self.stride, -self.start, self.dilation, self.size)
        return inside + reach


def _count_below(count: int, stride: int, bound: int) -> int:
    """How many of 0, stride, 2*stride, ... (``count`` of them) are below a bound."""
    return min(count, max(0, -(-bound // stride)))


def _count_residues(count: int, stride: int, offset: int, modulus: int, bound: int) -> int:
    """How many i below ``count`` have ``(i*stride + offset) mod modulus < bound``."""
    if bound >= modulus:
        return count
    upper = _floor_sum(count, modulus, stride, offset % modulus + modulus)
    return upper - _floor_sum(count, modulus, stride, offset % modulus + modulus - bound)


def _floor_sum(count: int, modulus: int, step: int, offset: int) -> int:
    """The sum of ``(step*i + offset) // modulus`` for i below ``count``, in logarithmic time."""
    total = 0
    while count > 0:
        total += (count - 1) * count // 2 * (step // modulus) + count * (offset // modulus)
        step, offset = step % modulus, offset % modulus
        top = step * count + offset
        if top < modulus:
            break
        count, offset = divmod(top, modulus)
        modulus, step = step, modulus
    return total


_SPATIAL = ("Strides", "WindowSize", "StartPadding", "EndPadding")


def _constraints(desc: MaxPooling, tensors: Tensors) -> Iterator[Fault]:
    source = tensors["InputTensor"]
    spatial = source.rank - 2
    if spatial != len(desc.WindowSize):
        yield Fault(
            Code.COUNT_MISMATCH,
            ("WindowSize",),
            f"{len(desc.WindowSize)} spatial dimensions given for an InputTensor of rank {source.rank}, "
            f"which has {spatial}",
            [spatial],
        )
        return
    for i, dimension in enumerate(desc.dimensions(source.sizes)):
        if dimension.dilated_window > dimension.padded:
            yield Fault(
                Code.WINDOW_TOO_LARGE,
                ("WindowSize", i),
                f"the window covers {dimension.dilated_window} positions with its dilation, and the input has "
                f"{dimension.padded} with its padding",
            )


def _outputs(desc: MaxPooling, tensors: Tensors) -> dict[str, OutputRule]:
    source = tensors["InputTensor"]
    spatial = (dimension.output_sizes for dimension in desc.dimensions(source.sizes))
    sizes = ((source.sizes[0],), (source.sizes[1],), *spatial)
    return {
        "OutputTensor": OutputRule(sizes, source.data_type, same_as="InputTensor"),
        "OutputIndicesTensor": OutputRule(sizes, DataType.UINT32),
    }


def _output_constraints(desc: MaxPooling, tensors: Tensors) -> Iterator[Fault]:
    output = tensors["OutputTensor"]
    for i, dimension in enumerate(desc.dimensions(tensors["InputTensor"].sizes)):
        empty = output.sizes[i + 2] - dimension.windows_with_element(output.sizes[i + 2])
        if empty:
            yield Fault(
                Code.WINDOW_WITHOUT_ELEMENT,
                ("OutputTensor", "Sizes", i + 2),
                f"{empty} of the {output.sizes[i + 2]} windows along dimension {i + 2} hold padding alone "
                "and have no maximum",
            )
    indices = tensors.get("OutputIndicesTensor")
    if indices is not None and indices.sizes != output.sizes:
        yield Fault(
            Code.SIZES_MISMATCH,
            ("OutputIndicesTensor", "Sizes"),
            f"sizes {list(indices.sizes)} given; OutputTensor has {list(output.sizes)}, and both must be equal",
            [list(output.sizes)],
        )


def _work(desc: MaxPooling, tensors: Tensors) -> int:
    """Each element of the output visits its window, without the padding."""
    images, channels, *outputs = tensors["OutputTensor"].sizes
    dimensions = desc.dimensions(tensors["InputTensor"].sizes)
    visited = (dimension.elements_visited(count) for dimension, count in zip(dimensions, outputs, strict=True))
    return images * channels * prod(visited)


_INPUT = TensorField("InputTensor", Role.INPUT)
_OUTPUT = TensorField("OutputTensor", Role.OUTPUT)
_INDICES = TensorField("OutputIndicesTensor", Role.OPTIONAL_OUTPUT)
_DILATIONS = ArrayField("Dilations", least=1)


def _fields(*, indices: bool, dilations: bool) -> tuple[Field, ...]:
    arrays = (
        ArrayField("Strides", least=1),
        ArrayField("WindowSize", least=1),
        ArrayField("StartPadding"),
        ArrayField("EndPadding"),
        *((_DILATIONS,) if dilations else ()),
    )
    count = CountField("DimensionCount", tuple(member.name for member in arrays))
    return (_INPUT, _OUTPUT, *((_INDICES,) if indices else ()), count, *arrays)


def _rows(introduced: FeatureLevel, *, indices: bool) -> Rows:
    ranks = (4, 5)
    uint32, both = (DataType.UINT32,), (DataType.UINT64, DataType.UINT32)
    return tuple(
        Row(
            level,
            {
                "InputTensor": Limits(types, ranks),
                "OutputTensor": Limits(types, ranks),
                **({"OutputIndicesTensor": Limits(positions, ranks)} if indices else {}),
            },
        )
        for level, types, positions in (
            (FeatureLevel.V5_0, (*FLOATS, *ALL_INTEGERS), both),
            (FeatureLevel.V3_0, (*FLOATS, *INTEGERS_8), uint32),
            (introduced, FLOATS, uint32),
        )
    )


def _operator(
    name: str,
    summary: str,
    rows: Rows,
    fields: tuple[Field, ...],
    examples: tuple[Example, ...],
    bad_examples: tuple[BadExample, ...],
) -> Operator[MaxPooling]:
    return Operator(
        name=name,
        summary=summary,
        fields=fields,
        attributes=MaxPooling,
        support=lambda _: rows,
        constraints=_constraints,
        outputs=_outputs,
        output_constraints=_output_constraints,
        work=_work,
        examples=examples,
        bad_examples=bad_examples,
    )


def _desc(sizes: list[int], window: list[int], data_type: str = "FLOAT32", **changes: object) -> dict[str, object]:
    n = len(window)
    return {
        "InputTensor": {"DataType": data_type, "Sizes": sizes},
        "DimensionCount": n,
        "Strides": [1] * n,
        "WindowSize": window,
        "StartPadding": [0] * n,
        "EndPadding": [0] * n,
        **changes,
    }


_SQUARE = [[[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]]]

_EXAMPLES = (
    Example(
        name="halves_an_image",
        desc=_desc([1, 1, 4, 4], [2, 2], Strides=[2, 2]),
        inputs={"InputTensor": _SQUARE},
        outputs={"OutputTensor": [[[[6, 8], [14, 16]]]]},
    ),
    Example(
        name="padding_never_wins",
        desc=_desc([1, 1, 1, 3], [1, 3], StartPadding=[0, 1], EndPadding=[0, 1]),
        inputs={"InputTensor": [[[[-3, -2, -4]]]]},
        outputs={"OutputTensor": [[[[-2, -2, -2]]]]},
    ),
    Example(
        name="ceiling_size",
        desc=_desc([1, 1, 1, 6], [1, 3], Strides=[1, 2], OutputTensor={"DataType": "FLOAT32", "Sizes": [1, 1, 1, 3]}),
        inputs={"InputTensor": [[[[1, 2, 3, 4, 5, 6]]]]},
        outputs={"OutputTensor": [[[[3, 5, 6]]]]},
    ),
    Example(
        name="volume_of_bytes",
        desc=_desc([1, 1, 2, 2, 2], [2, 2, 1], "INT8"),
        inputs={"InputTensor": [[[[[1, -2], [3, 4]], [[-5, 6], [7, -128]]]]]},
        outputs={"OutputTensor": [[[[[7, 6]]]]]},
    ),
)

_INDEX_EXAMPLES = (
    Example(
        name="positions_in_the_whole_tensor",
        desc=_desc([1, 2, 2, 2], [2, 2], OutputIndicesTensor={"DataType": "UINT32", "Sizes": [1, 2, 1, 1]}),
        inputs={"InputTensor": [[[[1, 2], [3, 0]], [[5, 9], [9, 5]]]]},
        outputs={"OutputTensor": [[[[3]], [[9]]]], "OutputIndicesTensor": [[[[2]], [[5]]]]},
    ),
    Example(
        name="positions_never_in_padding",
        desc=_desc(
            [1, 1, 1, 3],
            [1, 2],
            StartPadding=[0, 1],
            EndPadding=[0, 1],
            OutputIndicesTensor={"DataType": "UINT64", "Sizes": [1, 1, 1, 4]},
        ),
        inputs={"InputTensor": [[[["-Infinity", "NaN", 1]]]]},
        outputs={
            "OutputTensor": [[[["-Infinity", "-Infinity", 1, 1]]]],
            "OutputIndicesTensor": [[[[0, 0, 2, 2]]]],
        },
    ),
)

_DILATED_EXAMPLE = Example(
    name="dilated_window",
    desc=_desc(
        [1, 1, 1, 6],
        [1, 2],
        Dilations=[1, 3],
        OutputIndicesTensor={"DataType": "UINT32", "Sizes": [1, 1, 1, 3]},
    ),
    inputs={"InputTensor": [[[[9, 8, 7, 1, 8, 9]]]]},
    outputs={"OutputTensor": [[[[9, 8, 9]]]], "OutputIndicesTensor": [[[[0, 1, 5]]]]},
)

_BAD_EXAMPLES = (
    BadExample(
        name="zero_stride",
        desc=_desc([1, 1, 4, 4], [2, 2], Strides=[0, 1]),
        code=Code.OUT_OF_RANGE,
        pointer="/Strides/0",
    ),
    BadExample(
        name="window_past_the_input",
        desc=_desc([1, 1, 4, 4], [5, 2]),
        code=Code.WINDOW_TOO_LARGE,
        pointer="/WindowSize/0",
    ),
    BadExample(
        name="window_of_padding",
        desc=_desc(
            [1, 1, 4, 4],
            [2, 2],
            StartPadding=[2, 0],
            OutputTensor={"DataType": "FLOAT32", "Sizes": [1, 1, 5, 3]},
        ),
        code=Code.WINDOW_WITHOUT_ELEMENT,
        pointer="/OutputTensor/Sizes/2",
    ),
    BadExample(
        name="neither_floor_nor_ceiling",
        desc=_desc([1, 1, 4, 4], [2, 2], Strides=[2, 2], OutputTensor={"DataType": "FLOAT32", "Sizes": [1, 1, 3, 2]}),
        code=Code.SIZES_MISMATCH,
        pointer="/OutputTensor/Sizes/2",
    ),
    BadExample(name="rank_3", desc=_desc([1, 4, 4], [2]), code=Code.RANK_NOT_IN_LEVEL, pointer="/InputTensor/Sizes"),
    BadExample(
        name="counts_differ",
        desc=_desc([1, 1, 4, 4], [2, 2], EndPadding=[0]),
        code=Code.COUNT_MISMATCH,
        pointer="/EndPadding",
    ),
)


def _with_dilations(examples: tuple[Example, ...]) -> tuple[Example, ...]:
    return tuple(
        Example(
            name=example.name,
            desc={**example.desc, "Dilations": [1] * len(example.desc["WindowSize"])},
            inputs=example.inputs,
            outputs=example.outputs,
        )
        for example in examples
    )


_BAD_DILATED_EXAMPLES = (
    BadExample(
        name="dilated_window_past_the_input",
        desc=_desc([1, 1, 4, 4], [2, 2], Dilations=[1, 4]),
        code=Code.WINDOW_TOO_LARGE,
        pointer="/WindowSize/1",
    ),
    BadExample(
        name="zero_dilation",
        desc=_desc([1, 1, 4, 4], [2, 2], Dilations=[1, 0]),
        code=Code.OUT_OF_RANGE,
        pointer="/Dilations/1",
    ),
    BadExample(
        name="dilations_left_out",
        desc=_desc([1, 1, 4, 4], [2, 2]),
        code=Code.MISSING_FIELD,
        pointer="",
    ),
    BadExample(
        name="indices_of_other_sizes",
        desc=_desc(
            [1, 1, 4, 4],
            [2, 2],
            Dilations=[1, 1],
            OutputIndicesTensor={"DataType": "UINT32", "Sizes": [1, 1, 2, 2]},
        ),
        code=Code.SIZES_MISMATCH,
        pointer="/OutputIndicesTensor/Sizes/2",
    ),
)

MAX_POOLING = _operator(
    "MAX_POOLING",
    "The greatest element of each window.",
    _rows(FeatureLevel.V1_0, indices=False),
    _fields(indices=False, dilations=False),
    _EXAMPLES,
    _BAD_EXAMPLES,
)

MAX_POOLING1 = _operator(
    "MAX_POOLING1",
    "The greatest element of each window and, if asked for, its position in the input.",
    _rows(FeatureLevel.V2_0, indices=True),
    _fields(indices=True, dilations=False),
    (*_EXAMPLES, *_INDEX_EXAMPLES),
    _BAD_EXAMPLES,
)

MAX_POOLING2 = _operator(
    "MAX_POOLING2",
    "The greatest element of each window, whose elements may lie apart, and its position if asked for.",
    _rows(FeatureLevel.V2_1, indices=True),
    _fields(indices=True, dilations=True),
    (*_with_dilations(_EXAMPLES), *_with_dilations(_INDEX_EXAMPLES), _DILATED_EXAMPLE),
    _BAD_DILATED_EXAMPLES,
)
