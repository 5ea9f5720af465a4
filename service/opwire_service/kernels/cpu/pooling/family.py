"""Averages and norms of windows, and the gradient of averages."""

from __future__ import annotations

from math import lcm, prod
from typing import Any, NamedTuple

from opwire.check import Plan, check
from opwire.enums import ReduceFunction
from opwire.rules.dimension import Dimension
from opwire.tensor import BufferTensorDesc, DataType

from ...windows import covered, dimensions_of
from ..jit.compiler import Kernel
from ..jit.element import FLOAT32, HALF
from ..numbers.rounding import AVERAGE, L2
from ..reduce import family as reduce
from ..run.job import Job, KernelStep
from ..run.reference import ReferenceJob
from ..run.window_tiles import WindowTilesJob
from ..run.windows import encode
from . import geometry as g
from . import kernels, powers, quantized
from .bands import bands, room

FLOATS = {DataType.FLOAT32: FLOAT32, DataType.FLOAT16: HALF}

KERNELS = tuple(
    Kernel(function, element) for element in FLOATS.values() for function in (kernels.rows, kernels.windows, bands)
)

CACHED_VISITS = 1 << 15
"""Elements that a tile visits for small windows, so that its lines stay in the inner caches."""

MOST_READ = 1 << 22
"""Maximum number of elements that a tile visits: some milliseconds."""

LONGEST_LINE = 1 << 16
"""Maximum length of a line."""

SETTLED = 1 << 23
"""Maximum number of elements of all windows of a tile; summing one exactly takes some nanoseconds."""

SPARSE_FACTOR = 16
"""Windows are summed one by one if lines would visit this many times the elements of the windows."""

BAND, WIDEST = 1 << 13, 1 << 11
"""Outputs in a band of rows, and the maximum number of outputs in each row."""

LANES, LINE_VISITS, TILE_VISITS, EXACT_VISITS = 4, 32, 128, 16
"""Elements of lines per visit; and the costs of a line, a tile, and an element that is summed exactly, in visits."""

MOST_TAPS = 16
"""Maximum window size along each dimension for summation in bands."""

LARGEST_WEIGHT = 1 << 28
"""Weights up to this have exact products with elements in float64."""


class _WindowSums(NamedTuple):
    """The sum computed for each element of an output.

    Attributes:
        source, target: the tensors.
        dimensions: the dimensions that windows slide along.
        backward: whether outputs gather windows (gradient) instead of elements.
        whole: see ``geometry``.
        common: for each dimension a common multiple of all window sizes, or 0.
        divisor: see ``geometry``.
        kind, function: the kind of its terms, and the function applied to the sum.
    """

    source: BufferTensorDesc
    target: BufferTensorDesc
    dimensions: tuple[Dimension, ...]
    backward: bool
    whole: int
    common: tuple[int, ...]
    divisor: int
    kind: int
    function: int

    @property
    def taps(self) -> list[int]:
        """Maximum number of terms that an output gathers along each dimension."""
        if self.backward:
            return [-(-each.window // each.stride) for each in self.dimensions]
        return [min(each.window, -(-each.size // each.dilation)) for each in self.dimensions]

    def line(self, width: int) -> int:
        across = self.dimensions[-1]
        if self.backward:
            return (width - 1) // across.stride + 2 + (across.window - 1) // across.stride
        return (width - 1) * across.stride + across.dilated_window

    def visits(self, width: int) -> int:
        """Returns the number of elements that a tile of ``width`` outputs visits."""
        line = self.line(width)
        taps = -(-self.dimensions[-1].window // (self.dimensions[-1].stride if self.backward else 1))
        return self.lines * min(line, self.source.sizes[-1]) + 2 * line + width * taps

    @property
    def lines(self) -> int:
        """Maximum number of lines that a tile gathers."""
        return prod(self.taps[:-1])


def _averages(plan: Plan) -> _WindowSums:
    source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
    dimensions = dimensions_of(plan.attributes, source.sizes, target.sizes)
    none = (0,) * len(dimensions)
    is_inside = all(
        not each.start and (count - 1) * each.stride + each.dilated_window <= each.size
        for each, count in zip(dimensions, target.sizes[2:], strict=True)
    )
    whole = prod(each.window for each in dimensions) if plan.attributes.IncludePadding or is_inside else 0
    return _WindowSums(source, target, dimensions, False, whole, none, whole, g.SIGNED, AVERAGE)


def _norms(plan: Plan) -> _WindowSums:
    source = plan.inputs["InputTensor"]
    dimensions = dimensions_of(plan.attributes, source.sizes)
    kind, function = (g.MAGNITUDE, AVERAGE) if plan.attributes.P == 1 else (g.SQUARES, L2)
    none = (0,) * len(dimensions)
    return _WindowSums(source, plan.outputs["OutputTensor"], dimensions, False, 0, none, 1, kind, function)


def _gradient(plan: Plan) -> _WindowSums:
    source, target = plan.inputs["InputGradientTensor"], plan.outputs["OutputGradientTensor"]
    dimensions = dimensions_of(plan.attributes, target.sizes, source.sizes)
    common = (0,) * len(dimensions)
    divisor = prod(each.window for each in dimensions)
    if not plan.attributes.IncludePadding:
        multiples = [_common(each, count) for each, count in zip(dimensions, source.sizes[2:], strict=True)]
        common = tuple(0 if only else multiple for multiple, only in multiples)
        divisor = prod(multiple for multiple, _ in multiples)
    # Outputs in no window are +0, and so is every zero.
    return _WindowSums(source, target, dimensions, True, 1 << 62, common, divisor, g.SIGNED, AVERAGE)


def _common(dimension: Dimension, count: int) -> tuple[int, bool]:
    """Returns a common multiple of the sizes of ``count`` windows, without empty ones, and whether these are equal."""
    first_whole = -(-dimension.start // dimension.stride)
    last_whole = (dimension.size + dimension.start - dimension.window) // dimension.stride
    edges = [*range(count)[:first_whole][:MOST_EDGE], *range(count)[max(0, last_whole + 1) :][:MOST_EDGE]]
    if len(edges) >= MOST_EDGE:
        return LARGEST_WEIGHT + 1, False
    sizes = {len(covered(dimension, window)) for window in edges} - {0}
    if first_whole <= min(last_whole, count - 1):
        sizes.add(dimension.window)
    return min(lcm(*sizes), LARGEST_WEIGHT + 1), len(sizes) <= 1


MOST_EDGE = 1 << 12
"""Maximum number of windows at each edge of a dimension whose sizes are examined."""


def _in_bands(sums: _WindowSums) -> Job | None:
    """Returns the job of averages of dense windows, padding included, if the outputs of a plane are contiguous."""
    if len(sums.dimensions) != 2 or not sums.whole or sums.backward:
        return None
    height, across = sums.dimensions
    *_, rows, width = sums.target.sizes
    is_dense = all(each.dilation == 1 and each.stride <= min(2, each.window) for each in (height, across))
    is_packed = sums.target.element_strides[2:] == (width, 1)
    line = across.padded
    if not is_dense or not is_packed or width > WIDEST or max(height.window, across.window) > MOST_TAPS:
        return None
    if line > LONGEST_LINE:
        return None
    most = min(rows, max(BAND // width, 2 * height.window))
    tiles = -(-rows // most)
    band = -(-rows // tiles)
    units, taps = prod(sums.target.sizes[:2]) * tiles, height.window + across.window
    visits = (band * height.stride + height.window) * width * taps
    parameters = {"tile": band, "tiles": tiles, "line": line}
    costs = units * (visits // LANES + LINE_VISITS * band // 4 + TILE_VISITS)
    return _job(sums, bands, parameters, units, visits, costs, room)


def _prepare(plan: Plan, sums: _WindowSums) -> Job:
    if sums.divisor > LARGEST_WEIGHT and sums.backward:
        return ReferenceJob(plan)
    window = prod(sums.taps)
    outputs = sums.target.sizes[-1]
    width = min(outputs, max(1, SETTLED // window))
    lines = _width(sums, width)
    rows = prod(sums.target.sizes[:-1])
    work = max(1, plan.work)
    if lines:
        tiles = -(-outputs // lines)
        if rows * tiles * sums.visits(lines) <= SPARSE_FACTOR * work + rows * tiles * CACHED_VISITS:
            even = -(-outputs // tiles)
            costs = sums.visits(even) // LANES + LINE_VISITS * sums.lines + TILE_VISITS
            line = sums.line(even)
            parameters = {"tile": even, "tiles": tiles, "line": line}
            return _job(
                sums, kernels.rows, parameters, rows * tiles, sums.visits(even), rows * tiles * costs, kernels.room
            )
    if window > SETTLED:
        return ReferenceJob(plan)
    width = min(width, max(1, CACHED_VISITS // window))
    costs = EXACT_VISITS * (work + sums.target.element_count)
    tiles = -(-outputs // width)
    parameters, visits = {"tile": width, "tiles": tiles}, width * (8 * window + 16)
    return _job(sums, kernels.windows, parameters, rows * tiles, visits, costs, None)


def _width(sums: _WindowSums, most: int) -> int:
    """Returns the width of tiles that are summed along a line; 0 if even one output visits too much."""
    width = most
    while width and (sums.line(width) > LONGEST_LINE or sums.visits(width) > MOST_READ):
        width //= 2
    while width > 256 and sums.visits(width) > 2 * CACHED_VISITS:
        width //= 2
    return width


def _job(
    sums: _WindowSums, function: object, parameters: dict[str, int], units: int, visits: int, costs: int, room: Any
) -> WindowTilesJob:
    """Returns the job of tiles of outputs that a kernel sums.

    Args:
        sums: the sums to compute.
        function: the kernel.
        parameters: fields of the geometry.
        units, visits: the number of tiles, and the elements that one visits.
        costs: cost of all tiles, in visits.
        room: see the job.
    """
    step = KernelStep(Kernel(function, FLOATS[sums.source.data_type]), _encode(sums, parameters), units, visits)
    names = ("InputGradientTensor", "OutputGradientTensor") if sums.backward else ("InputTensor", "OutputTensor")
    return WindowTilesJob(step, room, costs, *names)


def _encode(sums: _WindowSums, parameters: dict[str, int]) -> g.Sums:
    weights = [(multiple or 1) * taps for multiple, taps in zip(sums.common, sums.taps, strict=True)]
    geometry = encode(
        g.Sums,
        (sums.source, sums.target, sums.target),
        sums.dimensions,
        sums.target.sizes,
        kind=sums.kind,
        function=sums.function,
        backward=sums.backward,
        whole=sums.whole,
        weight=prod(weights),
        divisor=sums.divisor,
        **parameters,
    )
    axes = geometry.across, geometry.height, geometry.depth
    for axis, size, multiple in zip(axes, reversed(sums.source.sizes[2:]), reversed(sums.common), strict=False):
        axis.common = multiple
        if sums.backward:
            axis.size = size
    return geometry


def _as_reduction(plan: Plan, function: ReduceFunction) -> Job | None:
    """Returns the job of unpadded windows that span the whole input, as a plain reduction, which is faster."""
    source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
    dimensions = dimensions_of(plan.attributes, source.sizes, target.sizes)
    if any(each.window != each.size or each.start or each.end or each.dilation > 1 for each in dimensions):
        return None
    desc = {
        "Function": function.name,
        "InputTensor": _given(source),
        "OutputTensor": _given(target),
        "Axes": list(range(2, source.rank)),
    }
    return reduce.prepare(check({"type": "REDUCE", "desc": desc}))


def _given(desc: BufferTensorDesc) -> dict[str, object]:
    return {"DataType": desc.data_type.name, "Sizes": list(desc.sizes), "Strides": list(desc.element_strides)}


def prepare_average(plan: Plan) -> Job:
    sums = _averages(plan)
    return _as_reduction(plan, ReduceFunction.AVERAGE) or _in_bands(sums) or _prepare(plan, sums)


def prepare_norm(plan: Plan) -> Job:
    if plan.attributes.P > 2:
        return powers.prepare(plan)
    function = ReduceFunction.L1 if plan.attributes.P == 1 else ReduceFunction.L2
    return _as_reduction(plan, function) or _prepare(plan, _norms(plan))


def prepare_gradient(plan: Plan) -> Job:
    return _prepare(plan, _gradient(plan))


PREPARE = {
    **dict.fromkeys(("AVERAGE_POOLING", "AVERAGE_POOLING1"), prepare_average),
    **dict.fromkeys(("LP_POOLING", "LP_POOLING1"), prepare_norm),
    "AVERAGE_POOLING_GRAD": prepare_gradient,
    "QUANTIZED_LINEAR_AVERAGE_POOLING": quantized.prepare,
}
