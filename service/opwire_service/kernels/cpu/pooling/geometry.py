"""Loop geometry of poolings as an array of int64 slots: three spatial dimensions; missing outer ones have size 1."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from opwire.check import Plan
from opwire.rules.dimension import Dimension
from opwire.tensor import BufferTensorDesc

from ...windows import dimensions_of
from ..jit.compiler import inner
from ..run.geometry import at

# Slots of the array.
CHANNELS = 0
"""Number of channels."""

IMAGE_SOURCE, IMAGE_VALUE, IMAGE_INDEX = 1, 2, 3  # source, output and index steps from image to image
CHANNEL_SOURCE, CHANNEL_VALUE, CHANNEL_INDEX = 4, 5, 6
INDEX_SIZE = 7  # bytes of an index, 0 for none
LINE = 8  # padded positions that the windows of a tile cover along the innermost dimension
PACKED = 9  # whether an element's position in its channel is also its offset
INVERT = 12  # inversion bits, as in extremes
TILE, TILES = 10, 11  # outputs in a tile, and tiles in a row of outputs
SPATIAL, WIDTH = 24, 10  # first slot of the spatial dimensions, and slots of each
SIZE, STRIDE, WINDOW, START, DILATION, OUT, SOURCE, VALUE, INDEX = range(9)
PLACES = SPATIAL + 3 * WIDTH

DEPTH, HEIGHT, ACROSS = (SPATIAL + i * WIDTH for i in range(3))

_FLAT = Dimension(size=1, stride=1, window=1, start=0, end=0, dilation=1)
"""A dimension of size 1, in place of missing ones."""


def encode(plan: Plan, parameters: dict[int, int]) -> array[int]:
    """Encodes a checked max pooling; ``parameters`` are additional slots to set."""
    source, values = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
    indices = plan.outputs.get("OutputIndicesTensor")
    own = {
        INDEX_SIZE: 0 if indices is None else indices.data_type.bits // 8,
        PACKED: int(_is_packed(source)),
    }
    tensors = (source, values, indices or values)
    return encode_tensors(tensors, dimensions_of(plan.attributes, source.sizes), values.sizes, own | parameters)


def encode_tensors(
    tensors: tuple[BufferTensorDesc, BufferTensorDesc, BufferTensorDesc],
    dimensions: Sequence[Dimension],
    outputs: Sequence[int],
    parameters: dict[int, int],
) -> array[int]:
    """Encodes a pooling.

    Args:
        tensors: the input, the output, and a second output.
        dimensions: the dimensions that windows slide along.
        outputs: sizes of the output.
        parameters: additional slots to set.
    """
    row = [0] * PLACES
    row[CHANNELS] = outputs[1]
    row[IMAGE_SOURCE : IMAGE_INDEX + 1] = [tensor.element_strides[0] for tensor in tensors]
    row[CHANNEL_SOURCE : CHANNEL_INDEX + 1] = [tensor.element_strides[1] for tensor in tensors]
    for i in range(1, 4):
        present = i <= len(dimensions)
        dimension = dimensions[-i] if present else _FLAT
        steps = [tensor.element_strides[-i] if present else 0 for tensor in tensors]
        first = SPATIAL + (3 - i) * WIDTH
        row[first : first + 9] = [
            dimension.size,
            dimension.stride,
            dimension.window,
            dimension.start,
            dimension.dilation,
            outputs[-i] if present else 1,
            *steps,
        ]
    for place, value in parameters.items():
        row[place] = value
    return array("q", row)


def _is_packed(desc: BufferTensorDesc) -> bool:
    """Whether channels are contiguous in row-major order, so that positions in a channel are offsets."""
    moving = [(size, step) for size, step in zip(desc.sizes[2:], desc.element_strides[2:], strict=True) if size > 1]
    expected = 1
    for size, step in reversed(moving):
        if step != expected:
            return False
        expected *= size
    return True


@inner
def first_tap(geometry: int, dimension: int, out: int) -> int:
    """Returns the first tap of a window along a dimension that is not in the padding before the input."""
    begin = out * at(geometry, dimension + STRIDE) - at(geometry, dimension + START)
    dilation = at(geometry, dimension + DILATION)
    return 0 if begin >= 0 else (dilation - 1 - begin) // dilation


@inner
def taps_end(geometry: int, dimension: int, out: int) -> int:
    """Returns the end of the taps of a window along a dimension that are not in the padding after the input."""
    begin = out * at(geometry, dimension + STRIDE) - at(geometry, dimension + START)
    dilation = at(geometry, dimension + DILATION)
    return min(at(geometry, dimension + WINDOW), (at(geometry, dimension + SIZE) - 1 - begin) // dilation + 1)


@inner
def position(geometry: int, dimension: int, out: int, tap: int) -> int:
    """Returns the input position of a window's tap along a dimension."""
    begin = out * at(geometry, dimension + STRIDE) - at(geometry, dimension + START)
    return begin + tap * at(geometry, dimension + DILATION)


@inner
def place_of(geometry: int, plane: int, out: int, which: int, channel_step: int, image_step: int, row: int) -> int:
    """Returns the offset, in elements, of a row of outputs in a tensor (or of a channel, if ``row`` is -1)."""
    channels = at(geometry, CHANNELS)
    image = plane // channels
    offset = image * at(geometry, image_step) + (plane - image * channels) * at(geometry, channel_step)
    if row >= 0:
        offset += out * at(geometry, DEPTH + which) + row * at(geometry, HEIGHT + which)
    return offset
