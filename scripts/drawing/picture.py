"""Pictures of what operators do: tensors as grids, and which elements of the outputs depend on which of the inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any

from opwire.operator import Example, Operator
from opwire.operators import OPERATORS
from opwire.tensor import Array, BufferTensorDesc
from opwire_service.kernels.executable import EXECUTABLE

from .grid import HEIGHT, TICKS, WIDTH, Grid
from .marks import COLORS, Marks, focus, marks, unread
from .palette import with_colors
from .trace import Element, Trace, trace

_MOST_INPUTS = 3
_WIDEST = 760
_GAP = 56
_FILLS = ("tint", "cool-tint", "good-tint", "plum-tint", "warn-tint", "bad-tint")
_STROKES = ("accent", "cool", "good", "plum", "warn", "bad")
assert len(_FILLS) == len(_STROKES) == COLORS


@dataclass(frozen=True)
class Picture:
    """A picture of an example.

    Attributes:
        operator: name of the operator.
        example: the example.
        svg: the picture.
        caption: what it shows, in HTML.
    """

    operator: str
    example: Example
    svg: str
    caption: str


def pictures() -> dict[str, Picture]:
    """Returns the pictures by operator, of those for which one helps."""
    found = ((name, _picture(OPERATORS[name])) for name in EXECUTABLE)
    return {name: picture for name, picture in found if picture is not None}


def _picture(operator: Operator[Any]) -> Picture | None:
    """Draws the example that shows most, or none if none shows anything."""
    traces = [
        (each, found)
        for each in operator.examples
        if _may_fit(each) and _helps(found := trace(operator, each)) and _fits(found)
    ]
    if not traces:
        return None
    example, found = max(traces, key=lambda pair: _size(pair[1]))
    return Picture(operator.name, example, _draw(operator.name, example, found), _caption(example, found))


def _may_fit(example: Example) -> bool:
    descs = [each for each in example.desc.values() if isinstance(each, Mapping)]
    return not any("INT4" in str(each.get("DataType")) for each in descs)


def _size(found: Trace) -> int:
    return sum(array.size for array in (*found.inputs.values(), *found.outputs.values()))


def _variety(found: Trace) -> int:
    return len({tuple(each) for each in found.reads.values()})


def _helps(found: Trace) -> bool:
    """Whether outputs depend on other places than their own, and not all on the same ones."""
    single = sum(array.size for array in found.outputs.values()) == 1
    return not found.is_elementwise and (_variety(found) > 1 or single) and any(found.reads.values())


def _fits(found: Trace) -> bool:
    """Whether the picture is small: few tensors, few elements, at most a handful of matrices."""
    grids = [*_inputs(found, ()), *_outputs(found)]
    return len(_inputs(found, ())) <= _MOST_INPUTS and all(
        grid.array.size <= 100 and grid.width <= _WIDEST and len(grid.matrices) <= 8 and grid.is_legible
        for grid in grids
    )


def _inputs(found: Trace, margins: Sequence[int]) -> list[Grid]:
    """Returns the inputs, without single elements beside larger tensors."""
    is_large = any(array.size > 1 for array in found.inputs.values())
    return [
        _grid(name, found.plan.inputs[name], array, margins if name == "InputTensor" else ())
        for name, array in found.inputs.items()
        if array.size > 1 or not is_large
    ]


def _outputs(found: Trace) -> list[Grid]:
    return [_grid(name, found.plan.outputs[name], array, ()) for name, array in found.outputs.items()]


def _grid(name: str, desc: BufferTensorDesc, array: Array, margins: Sequence[int]) -> Grid:
    top, bottom, left, right = margins or (0, 0, 0, 0)
    return Grid(name, desc, array, (top, bottom, left, right))


def _margins(example: Example) -> Sequence[int]:
    """Returns the padding of the last two axes of an operator with windows."""
    desc = example.desc
    starts, ends = desc.get("StartPadding"), desc.get("EndPadding")
    has_windows = ("WindowSize" in desc or "FilterTensor" in desc) and desc.get("Direction") != "BACKWARD"
    if not has_windows or not starts or not ends:
        return ()
    down = (starts[-2], ends[-2]) if len(starts) > 1 else (0, 0)
    return (*down, starts[-1], ends[-1])


def _caption(example: Example, found: Trace) -> str:
    if found.is_flow:
        what = "Elements of one color hold the same values." if len(found.copies) > 1 else ""
    else:
        marked = "Each marked element" if len(focus(found)) > 1 else "The marked element"
        what = f"{marked} of the output is computed from the elements of its color."
    given = ", ".join(
        f"<code>{name}</code> {_value(value)}" for name, value in example.desc.items() if _is_shown(name, value)
    )
    return f"{given}. {what}".removeprefix(". ").strip()


def _is_shown(name: str, value: object) -> bool:
    tensors = isinstance(value, Mapping) or (
        isinstance(value, list) and any(isinstance(each, Mapping) for each in value)
    )
    return not tensors and value is not None and not name.endswith("Count")


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _draw(name: str, example: Example, found: Trace) -> str:
    inputs, outputs = _inputs(found, _margins(example)), _outputs(found)
    places, width, height = _lay_out(inputs, outputs)
    marked = marks(found)
    faded = unread(found)
    parts = [_rules()]
    # Cells hide what is behind them, so that the curves are only seen between tensors.
    if places[outputs[0].name][0]:
        parts.extend(_arrows(found, {grid.name: grid for grid in (*inputs, *outputs)}, places))
    for grids, colors in zip((inputs, outputs), marked, strict=True):
        for grid in grids:
            x, y = places[grid.name]
            body = "".join(grid.draw(partial(_classes, grid.name, colors, faded)))
            parts.append(f'<g transform="translate({x:g} {y:g})">{body}</g>')
    title = f"{name}: {', '.join(grid.name for grid in inputs)} to {', '.join(grid.name for grid in outputs)}"
    body = "\n".join(parts)
    return with_colors(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="operator" viewBox="-4 -4 {width + 8:g} {height + 8:g}" '
        f'width="{width + 8:g}" height="{height + 8:g}" role="img" aria-label="{escape(title)}">\n{body}\n</svg>\n'
    )


def _classes(name: str, colors: Marks, faded: set[Element], at: tuple[int, ...]) -> str:
    found = colors.get((name, at), [])
    names = [*(f"m{color}" for color in found[:1]), *(f"s{color}" for color in found[1:])]
    return " ".join([*names, "u"] if (name, at) in faded else names)


def _lay_out(inputs: list[Grid], outputs: list[Grid]) -> tuple[dict[str, tuple[float, float]], float, float]:
    """Places the inputs left of the outputs if the page is wide enough, otherwise above them."""
    columns = [inputs, outputs]
    widths = [max(grid.width for grid in grids) for grids in columns]
    if sum(widths) + _GAP <= _WIDEST:
        heights = [sum(grid.height + 20 for grid in grids) - 20 for grids in columns]
        places = {}
        for grids, x, height in zip(columns, (0, widths[0] + _GAP), heights, strict=True):
            y = (max(heights) - height) / 2
            for grid in grids:
                places[grid.name] = (x, y)
                y += grid.height + 20
        return places, sum(widths) + _GAP, max(heights)
    places, y = {}, 0.0
    for grid in (*inputs, *outputs):
        places[grid.name] = (0.0, y)
        y += grid.height + 30
    return places, max(widths), y - 30


def _arrows(found: Trace, grids: Mapping[str, Grid], places: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    """Yields a curve from what each marked element of the output depends on to that element."""
    if found.is_flow:
        return
    for color, (name, at) in enumerate(focus(found)):
        end = _middle(grids[name], places[name], [at], left=True)
        for tensor in dict.fromkeys(read[0] for read in found.reads[name, at]):
            if tensor not in grids:
                continue
            read = [each for of, each in found.reads[name, at] if of == tensor]
            start = _middle(grids[tensor], places[tensor], read, left=False)
            bend = max(30.0, (end[0] - start[0]) / 2)
            turns = f"{start[0] + bend:g} {start[1]:g} {end[0] - bend:g} {end[1]:g}"
            yield f'<path class="a a{color}" d="M{start[0]:g} {start[1]:g}C{turns} {end[0]:g} {end[1]:g}"/>'


def _middle(
    grid: Grid, place: tuple[float, float], elements: list[tuple[int, ...]], *, left: bool
) -> tuple[float, float]:
    """Returns where a curve ends: the middle of the left or right edge of the smallest box around elements."""
    corners = [grid.corner(at) for at in elements]
    x = (
        min(corner[0] for corner in corners) - (TICKS if grid.rows > 1 else 0)
        if left
        else max(corner[0] for corner in corners) + WIDTH
    )
    rows = [corner[1] for corner in corners]
    return place[0] + x, place[1] + (min(rows) + max(rows) + HEIGHT) / 2


def _rules() -> str:
    """Returns the rules for the elements of a picture, which name its class since a page holds several."""
    rules = [
        "text{font:12px var(--mono,ui-monospace,monospace);fill:var(--text)}",
        ".n{font-weight:650}",
        ".q,.operator .t{fill:var(--quiet);font-size:11px}",
        ".t,.operator .v{text-anchor:middle}",
        ".c{fill:var(--back);stroke:var(--edge)}",
        ".p{fill:none;stroke:var(--edge);stroke-dasharray:3 3}",
        ".u{opacity:.45}",
        ".a{fill:none;stroke-width:1.5}",
    ]
    for i, (fill, stroke) in enumerate(zip(_FILLS, _STROKES, strict=True)):
        rules += [f".m{i}{{fill:var(--{fill})}}", f".s{i}{{stroke:var(--{stroke});stroke-width:3}}"]
        rules += [f".a{i}{{stroke:var(--{stroke})}}"]
    return f"<style>{''.join(f'.operator {rule}' for rule in rules)}</style>"
