"""From the number of a unit of work to its place along each loop."""

from __future__ import annotations

from ..jit.compiler import inlined
from ..jit.records import Record


class ImageSteps(Record):
    """Steps of a tensor of images, in elements."""

    image: int
    channel: int
    down: int
    across: int


@inlined
def split(number: int, size: int) -> tuple[int, int]:
    """Splits off the place along the innermost loop, of this size, and returns the number for the loops around it."""
    rest = number // size
    return rest, number - rest * size
