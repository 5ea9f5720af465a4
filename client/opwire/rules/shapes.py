"""Named sizes: shapes of several tensors that must agree wherever they use the same name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import EllipsisType

from ..violation import Code, Fault
from .expressions import Quantity
from .outputs import Sizes, SizesOf
from .rule import Rule, Values, tensors_of


@dataclass(frozen=True, slots=True)
class NamedSize:
    """A named size, or a multiple of one."""

    name: str
    times: int | Quantity = 1

    def __rmul__(self, times: int | Quantity) -> NamedSize:
        return NamedSize(self.name, times)

    def factor(self, values: Values) -> int | None:
        """Returns the factor of the size."""
        return self.times if isinstance(self.times, int) else self.times.value(values)


Dimension = int | str | NamedSize | Quantity | EllipsisType
"""A size: a number, a name, a multiple of a name such as ``3 * NamedSize("hidden")``, or a computed number. ``...`` at
the start stands for any number of leading ones, at the end for any number of trailing ones."""

Shape = tuple[Dimension, ...]


@dataclass(frozen=True, slots=True)
class Shapes(Rule):
    """Tensors have the given shapes, in which each name stands for the same size throughout.

    The first use of a name determines its size. A tensor whose rank differs from its shape's violates the rank.

    Attributes:
        shapes: the shapes by tensor, in the order in which names are bound.
        cut: whether tensors may have a lower rank than their shape, omitting leading sizes, which then count as 1.
    """

    code = Code.SIZES_MISMATCH

    shapes: Mapping[str, Shape]
    cut: bool = False

    @property
    def reads(self) -> frozenset[str]:
        terms = (each for shape in self.shapes.values() for each in shape)
        found = frozenset(self.shapes)
        for each in terms:
            quantity = each.times if isinstance(each, NamedSize) else each
            if isinstance(quantity, Quantity):
                found |= quantity.reads
        return found

    @property
    def text(self) -> str:
        return "; ".join(f"{tensor} has the sizes {self._written(tensor)}" for tensor in self.shapes)

    def faults(self, values: Values) -> Iterator[Fault]:
        known: dict[str, int] = {}
        for member in self.shapes:
            for path, name, desc in tensors_of(values, member):
                shape = self._aligned(member, desc.rank)
                if shape is None:
                    ranks = sum(each is not ... for each in self.shapes[member])
                    message = f"{name} has rank {desc.rank}; its sizes are {self._written(member)}"
                    yield Fault(Code.RANKS_DIFFER, (*path, "Sizes"), message, [ranks])
                    continue
                omitted = self._omitted(member, desc.rank)
                wrong = [each for each in omitted if _match(each, 1, values, known) is not None]
                if wrong:
                    message = f"{name} has rank {desc.rank}, so {' and '.join(map(_spelled, wrong))} would be 1"
                    yield Fault(self.code, (*path, "Sizes"), message)
                for i, (given, each) in enumerate(zip(desc.sizes, shape, strict=True)):
                    wanted = _match(each, given, values, known)
                    if wanted is not None:
                        allowed = f"allowed: {wanted}" if isinstance(each, int) else f"{_spelled(each)} is {wanted}"
                        message = f"size {given} given for dimension {i} of {name}; {allowed}"
                        yield Fault(self.code, (*path, "Sizes", i), message, [wanted])

    def sizes_of(self, tensor: str) -> SizesOf:
        """Returns a function that derives the sizes of an output; with ``cut``, it has the rank of the first tensor."""

        def derive(values: Values) -> Sizes | None:
            known: dict[str, int] = {}
            first = next(iter(self.shapes))
            for member in self.shapes:
                if member in values and member != tensor:
                    for _, _, desc in tensors_of(values, member):
                        aligned = self._aligned(member, desc.rank) or ()
                        for given, each in zip(desc.sizes, aligned, strict=False):
                            _match(each, given, values, known)
            rank = values[first].rank if self.cut else sum(each is not ... for each in self.shapes[tensor])
            shape = self._aligned(tensor, rank)
            sizes = None if shape is None else [_known(each, values, known) for each in shape]
            return None if sizes is None or None in sizes else tuple((size,) for size in sizes if size is not None)

        return derive

    def _omitted(self, tensor: str, rank: int) -> Shape:
        """Returns the leading sizes that a tensor of a lower rank omits."""
        shape = self.shapes[tensor]
        return shape[: max(len(shape) - rank, 0)] if self.cut and ... not in shape else ()

    def _aligned(self, tensor: str, rank: int) -> Shape | None:
        """Returns a tensor's shape adjusted to a rank, or None if that is not possible."""
        shape = self.shapes[tensor]
        if ... in shape:
            rest = tuple(each for each in shape if each is not ...)
            ones: Shape = (1,) * (rank - len(rest))
            found = ones + rest if shape[0] is ... else rest + ones
            return found if len(found) == rank else None
        if self.cut and rank < len(shape):
            return shape[len(shape) - rank :]
        return shape if len(shape) == rank else None

    def _written(self, tensor: str) -> str:
        return "{" + ", ".join(map(_spelled, self.shapes[tensor])) + "}"


def _spelled(each: Dimension) -> str:
    if each is ...:
        return "..."
    if isinstance(each, NamedSize):
        return each.name if each.times == 1 else f"{each.times} * {each.name}"
    return str(each)


def _match(each: Dimension, given: int, values: Values, known: dict[str, int]) -> int | None:
    """Binds an unknown name to its size. Returns the expected size if it differs from the given one, or else None."""
    wanted = _known(each, values, known)
    if wanted is not None:
        return None if wanted == given else wanted
    named = NamedSize(each) if isinstance(each, str) else each
    if not isinstance(named, NamedSize):
        return None
    factor = named.factor(values)
    if not factor:
        return None
    size, rest = divmod(given, factor)
    known[named.name] = max(size, 1)
    return known[named.name] * factor if rest or not size else None


def _known(each: Dimension, values: Values, known: Mapping[str, int]) -> int | None:
    if isinstance(each, int):
        return each
    if isinstance(each, str):
        return known.get(each)
    if isinstance(each, NamedSize):
        size, factor = known.get(each.name), each.factor(values)
        return None if size is None or factor is None else size * factor
    return None if each is ... else each.value(values)


def shapes(*, cut: bool = False, **of: Shape) -> Shapes:
    """``A.Sizes == {N, C, H, W}``, ``B.Sizes == {1, N, 3 * hidden, input}``, ... with names that agree."""
    return Shapes(of, cut)
