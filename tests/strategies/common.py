"""Keeps and breaks the rules that many families share: named shapes, presence, lengths, choices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from enum import IntEnum
from typing import Any, TypeGuard

from hypothesis import strategies as st

from opwire.rules import NamedSize, Rule
from opwire.rules.numbers import Between, Length, NotEmpty, Number, OneOf
from opwire.rules.presence import AnyGiven, GivenTogether, Required
from opwire.rules.shapes import Shapes
from opwire.rules.tensors import Broadcast, OneElement, SameLeading, SameSizes

from .changes import changed
from .descs import Drawn
from .faults import Change
from .numbers import number_of, set_number
from .outputs import output_sizes


def _aligned(shape: tuple[Any, ...], rank: int) -> list[Any]:
    """Pads a shape with ones, in place of ``...``, or truncates it at the front, to match a rank."""
    rest = [each for each in shape if each is not ...]
    ones = [1] * (rank - len(rest))
    if shape[-1] is ...:
        return rest + ones
    return (ones + rest)[-rank:]


def _size(each: Any, desc: Mapping[str, Any], names: Mapping[str, int]) -> int | None:
    """Returns the required value of a size, or None for a name that is not bound yet."""
    if isinstance(each, int):
        return each
    if isinstance(each, str):
        return names.get(each)
    if isinstance(each, NamedSize):
        return None if each.name not in names else names[each.name] * number_of(each.times, desc)
    return number_of(each, desc)


def _bound(rule: Shapes, drawn: Drawn) -> Iterator[tuple[str, list[int | None]]]:
    """Yields each tensor with its required sizes, None at the first use of a name, which may have any."""
    desc = drawn.desc
    if not drawn.desc.keys() >= {member.name for member in drawn.operator.members.outputs}:
        outputs = output_sizes(drawn.operator, drawn.desc)
        desc = {**{name: {"Sizes": list(sizes)} for name, sizes in outputs.items()}, **drawn.desc}
    names: dict[str, int] = {}
    for name, shape in rule.shapes.items():
        if drawn.desc.get(name) is None:
            continue
        sizes = drawn.desc[name]["Sizes"]
        if not (rule.cut or ... in shape) and len(sizes) != len(shape):
            drawn.desc[name] = None  # the rule does not allow this optional tensor at this rank
            continue
        wanted: list[int | None] = []
        for given, each in zip(sizes, _aligned(shape, len(sizes)), strict=True):
            size = _size(each, desc, names)
            wanted.append(size)
            if size is None:
                named = NamedSize(each) if isinstance(each, str) else each
                names[named.name] = max(given // number_of(named.times, desc), 1)
                if named.times != 1:
                    wanted[-1] = names[named.name] * number_of(named.times, desc)
        yield name, wanted


def _shape(rule: Shapes, drawn: Drawn, draw: st.DrawFn) -> None:
    for name, wanted in _bound(rule, drawn):
        sizes = drawn.desc[name]["Sizes"]
        sizes[:] = [given if size is None else size for given, size in zip(sizes, wanted, strict=True)]


def _misshape(rule: Shapes, drawn: Drawn) -> Iterator[Change]:
    for name, wanted in _bound(rule, drawn):
        for i, size in enumerate(wanted):
            for wrong in () if size is None else {size + 1, 1} - {size}:
                sizes = list(drawn.desc[name]["Sizes"])
                sizes[i] = wrong
                yield changed(drawn, name, Sizes=sizes), "sizes_mismatch", f"/{name}/Sizes/{i}"


def _broadcast(rule: Broadcast, drawn: Drawn, draw: st.DrawFn) -> None:
    given = drawn.desc.get(rule.tensor)
    if given is not None:
        whole = drawn.desc[rule.to]["Sizes"]
        pairs = zip(given["Sizes"], whole, strict=True)
        given["Sizes"] = [a if a in (1, b) else draw(st.sampled_from([1, b])) for a, b in pairs]


def _too_long(rule: Broadcast, drawn: Drawn) -> Iterator[Change]:
    given, whole = drawn.desc.get(rule.tensor), drawn.desc[rule.to]["Sizes"]
    alike = next((each.tensors for each in drawn.operator.rules if _alike(each, rule.tensor)), ())
    for i, size in enumerate(whole if given is not None else ()):
        desc = deepcopy(drawn.desc)
        for name in {rule.tensor, *alike}:
            desc[name] |= {"Strides": None, "Sizes": list(drawn.desc[rule.tensor]["Sizes"])}
            desc[name]["Sizes"][i] = size + 1
        yield desc, "sizes_mismatch", f"/{rule.tensor}/Sizes/{i}"


def _alike(rule: Rule, tensor: str) -> TypeGuard[SameSizes]:
    """Whether a rule requires other tensors to have the same sizes as this one."""
    return isinstance(rule, SameSizes) and tensor in rule.tensors


def _single(rule: OneElement, drawn: Drawn, draw: st.DrawFn) -> None:
    for name in rule.tensors:
        if drawn.desc.get(name) is not None:
            drawn.desc[name]["Sizes"] = [1] * len(drawn.desc[name]["Sizes"])


def _several(rule: OneElement, drawn: Drawn) -> Iterator[Change]:
    for name in rule.tensors:
        if drawn.desc.get(name) is not None:
            sizes = [*drawn.desc[name]["Sizes"][:-1], 2]
            yield changed(drawn, name, Sizes=sizes), "sizes_mismatch", f"/{name}/Sizes"


def _lead_alike(rule: SameLeading, drawn: Drawn, draw: st.DrawFn) -> None:
    first, *others = (drawn.desc[name]["Sizes"] for name in rule.tensors if drawn.desc.get(name) is not None)
    for sizes in others:
        sizes[: rule.count] = first[: rule.count]


def _lead_otherwise(rule: SameLeading, drawn: Drawn) -> Iterator[Change]:
    for name in rule.tensors[1:]:
        for i in range(rule.count):
            sizes = list(drawn.desc[name]["Sizes"])
            sizes[i] += 1
            yield changed(drawn, name, Sizes=sizes), "sizes_mismatch", f"/{name}/Sizes/{i}"


def _choose(rule: OneOf, drawn: Drawn, draw: st.DrawFn) -> None:
    names = [each.name if isinstance(each, IntEnum) else each for each in rule.allowed]
    if drawn.desc[rule.attribute] not in names:
        drawn.desc[rule.attribute] = draw(st.sampled_from(names))


def _another(rule: OneOf, drawn: Drawn) -> Iterator[Change]:
    first = rule.allowed[0]
    others = [each for each in (type(first) if isinstance(first, IntEnum) else range(9)) if each not in rule.allowed]
    for other in others:
        value = other.name if isinstance(other, IntEnum) else other
        yield {**drawn.desc, rule.attribute: value}, "value_not_allowed", f"/{rule.attribute}"


def _fill(rule: NotEmpty, drawn: Drawn, draw: st.DrawFn) -> None:
    drawn.desc[rule.array] = drawn.desc[rule.array] or [0]


def _emptied(rule: NotEmpty, drawn: Drawn) -> Iterator[Change]:
    yield {**drawn.desc, rule.array: []}, "count_mismatch", f"/{rule.array}"


def _counted_alike(rule: Length, drawn: Drawn) -> tuple[str, ...]:
    """Returns the arrays of the rule and those that share their count."""
    counts = [member.counts for member in drawn.operator.members.counts if rule.arrays[0] in member.counts]
    return counts[0] if counts else rule.arrays


def _cut(rule: Length, drawn: Drawn, draw: st.DrawFn) -> None:
    for name in _counted_alike(rule, drawn):
        drawn.desc[name] = drawn.desc[name][: number_of(rule.wanted, drawn.desc)]


def _lengthened(rule: Length, drawn: Drawn) -> Iterator[Change]:
    longer = {name: [*drawn.desc[name], deepcopy(drawn.desc[name][-1])] for name in _counted_alike(rule, drawn)}
    yield {**drawn.desc, **longer}, "count_mismatch", f"/{rule.arrays[0]}"


def _together(rule: GivenTogether, drawn: Drawn, draw: st.DrawFn) -> None:
    given = next((name for name in rule.tensors if drawn.desc.get(name) is not None), None)
    if given is not None:
        for name in rule.tensors:
            drawn.desc[name] = drawn.desc.get(name) or deepcopy(drawn.desc[given])


def _one_dropped(rule: GivenTogether, drawn: Drawn) -> Iterator[Change]:
    for name in rule.tensors:
        if drawn.desc.get(name) is not None:
            yield {**drawn.desc, name: None}, "missing_tensor", ""


def add(name: str, drawn: Drawn, draw: st.DrawFn) -> None:
    """Adds a tensor of any rank and type that the support row allows."""
    limits = drawn.row.tensors[name]
    rank = draw(st.integers(*limits.ranks))
    sizes = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    drawn.desc[name] = {"DataType": draw(st.sampled_from(limits.data_types)).name, "Sizes": sizes}


def _require(rule: Required, drawn: Drawn, draw: st.DrawFn) -> None:
    if drawn.desc.get(rule.tensor) is None:
        add(rule.tensor, drawn, draw)


def _dropped(rule: Required, drawn: Drawn) -> Iterator[Change]:
    yield {**drawn.desc, rule.tensor: None}, "missing_tensor", ""


def _give_any(rule: AnyGiven, drawn: Drawn, draw: st.DrawFn) -> None:
    if all(drawn.desc.get(name) is None for name in rule.tensors):
        add(rule.tensors[0], drawn, draw)


def _drop_all(rule: AnyGiven, drawn: Drawn) -> Iterator[Change]:
    yield {**drawn.desc, **dict.fromkeys(rule.tensors)}, "missing_tensor", ""


def _make_valid(rule: Number, drawn: Drawn, draw: st.DrawFn) -> None:
    right = next(value for value in (1.5, 0.5) if rule.holds(value))
    for name in rule.attributes:
        drawn.desc[name] = [right] * len(drawn.desc[name]) if isinstance(drawn.desc[name], list) else right


def _invalid_number(rule: Number, drawn: Drawn) -> Iterator[Change]:
    for name in rule.attributes:
        given = drawn.desc[name]
        for wrong in (0, -1):
            if not rule.holds(wrong):
                value, at = ([wrong, *given[1:]], f"/{name}/0") if isinstance(given, list) else (wrong, f"/{name}")
                yield {**drawn.desc, name: value}, "out_of_range", at


def _outside(rule: Between, drawn: Drawn) -> Iterator[Change]:
    for end, step in ((rule.greatest, 1), (rule.least, -1)):
        wrong = -1 if end is None else number_of(end, drawn.desc) + step
        if wrong >= 0:
            desc = deepcopy(drawn.desc)
            set_number(rule.number, wrong, desc)
            yield desc, "out_of_range", "/" + "/".join(map(str, rule.number.place))


SATISFY: dict[type[Rule], Callable[[Any, Drawn, st.DrawFn], None]] = {
    Shapes: _shape,
    Number: _make_valid,
    Broadcast: _broadcast,
    OneElement: _single,
    SameLeading: _lead_alike,
    OneOf: _choose,
    NotEmpty: _fill,
    Length: _cut,
    GivenTogether: _together,
    Required: _require,
    AnyGiven: _give_any,
}
BREAK: dict[type[Rule], Callable[[Any, Drawn], Iterator[Change]]] = {
    Shapes: _misshape,
    Number: _invalid_number,
    Between: _outside,
    Broadcast: _too_long,
    OneElement: _several,
    SameLeading: _lead_otherwise,
    OneOf: _another,
    NotEmpty: _emptied,
    Length: _lengthened,
    GivenTogether: _one_dropped,
    Required: _dropped,
    AnyGiven: _drop_all,
}
