"""Valid descs of any operator: members are drawn independently, then adjusted until every rule holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from hypothesis import strategies as st

from opwire.fields import TensorArray, TensorMember
from opwire.level import FeatureLevel
from opwire.operator import Operator
from opwire.operators.filters import FilterFits, PaddingLeavesOutput
from opwire.operators.gather import FitsRank
from opwire.operators.indices import IndexFits
from opwire.rules import Rule, Undecided
from opwire.rules.conditions import AtLevels, OnBasis, When, WithTensor
from opwire.rules.numbers import AxesBelowRank, Axis, Between, Divides, Equal, Number
from opwire.rules.shapes import Shapes
from opwire.rules.tensors import LeadingOnes, SameRank, SameSizes, SameType, TypeNamed
from opwire.rules.windows import Spatial, WindowHoldsElement, WindowSteps
from opwire.schema import CATALOG
from opwire.support import SupportRow, row_for

from .numbers import number_of, set_number
from .outputs import output_sizes
from .values import value

Desc = dict[str, Any]


@dataclass
class Drawn:
    """A valid desc.

    Attributes:
        operator: The operator it is for.
        level: A feature level that accepts it.
        row: The support row at that level.
        desc: The desc as JSON, without counts and derived outputs.
    """

    operator: Operator[Any]
    level: FeatureLevel
    row: SupportRow
    desc: Desc

    @property
    def request(self) -> dict[str, Any]:
        return {"type": self.operator.name, "desc": self.desc}


SMALL = (1, 2, 2, 3, 4)
"""Dimension sizes for small descs."""


@st.composite
def descs(draw: st.DrawFn, operator: Operator[Any], sizes: Sequence[int] = SMALL) -> Drawn:
    """Draws valid descs at any level that has the operator, with dimensions from ``sizes`` where the rules allow."""
    level = draw(st.sampled_from([level for level in FeatureLevel if level >= CATALOG[operator.name].introduced]))
    desc: Desc = {}
    for member in operator.members.attributes:
        if not member.optional or draw(st.booleans()):
            desc[member.name] = draw(value(member, level))
    rows = operator.support.rows({name: _chosen(operator, name, given) for name, given in desc.items()})
    row = row_for(rows, level)
    assert row is not None
    ranks = [range(limits.ranks[0], limits.ranks[1] + 1) for limits in row.tensors.values()]
    rank = draw(st.sampled_from(sorted(set(ranks[0]).intersection(*ranks))))
    for tensor in operator.members.inputs:
        if not tensor.role.is_optional or tensor.name in row.required or draw(st.booleans()):
            desc[tensor.name] = draw(_given(tensor, row, rank, sizes))
    for tensor in given_outputs(operator):
        desc[tensor.name] = draw(_given(tensor, row, rank, sizes))
    drawn = Drawn(operator, level, row, desc)
    if operator.name in SHAPED:
        SHAPED[operator.name](drawn, draw)
    for _ in range(3):  # satisfying one rule may break another
        if operator.name in PREPARE:
            PREPARE[operator.name](drawn)
        for rule in operator.rules:
            satisfy(rule, drawn, draw)
    return drawn


def _chosen(operator: Operator[Any], name: str, given: Any) -> Any:
    member: Any = next(member for member in operator.members.attributes if member.name == name)
    if name != operator.support.attribute:
        return given
    return member.type[given.removeprefix(member.prefix)] if isinstance(given, str) else member.type(given)


def given_outputs(operator: Operator[Any]) -> list[TensorMember]:
    """Returns the outputs that all or some descs must give."""
    required = [member for member in operator.members.outputs if not member.role.is_optional]
    known = operator.name not in PREPARE
    return [member for member in required if not known or isinstance(operator.outputs[member.name], Undecided)]


def _given(member: TensorMember, row: SupportRow, rank: int, sizes: Sequence[int]) -> st.SearchStrategy[Any]:
    """Returns a strategy for a tensor, or for an array of up to three; outputs are packed."""
    tensor = _tensor(member, row, rank, sizes)
    if member.role.is_output:
        tensor = tensor.map(lambda drawn: {**drawn, "Strides": None})
    return st.lists(tensor, min_size=1, max_size=3) if isinstance(member, TensorArray) else tensor


@st.composite
def _tensor(draw: st.DrawFn, member: TensorMember, row: SupportRow, rank: int, sizes: Sequence[int]) -> Desc:
    data_type = draw(st.sampled_from(row.tensors[member.name].data_types)).name
    chosen = draw(st.lists(st.sampled_from(sizes), min_size=rank, max_size=rank))
    strides = draw(st.none() | st.lists(st.integers(0, 5), min_size=rank, max_size=rank))
    return {"DataType": data_type, "Sizes": chosen, "Strides": strides}


def satisfy(rule: Rule, drawn: Drawn, draw: st.DrawFn) -> None:
    """Changes a desc so that it satisfies the rule."""
    own = SATISFY_IN.get(CATALOG[drawn.operator.name].family, {})
    (own.get(type(rule)) or SATISFY[type(rule)])(rule, drawn, draw)


def applies(rule: Rule, drawn: Drawn) -> bool:
    """Whether the conditions of a rule are met."""
    if isinstance(rule, When):
        given = drawn.desc.get(rule.attribute)
        names = {spelling for each in rule.among for spelling in (getattr(each, "name", each), int(each))}
        return given in names or (isinstance(given, str) and any(given.endswith(f"_{n}") for n in names))
    if isinstance(rule, WithTensor):
        return (drawn.desc.get(rule.tensor) is not None) is rule.given
    if isinstance(rule, AtLevels):
        return (rule.since or drawn.level) <= drawn.level and (rule.until is None or drawn.level < rule.until)
    return True


def _conditional(rule: Any, drawn: Drawn, draw: st.DrawFn) -> None:
    if applies(rule, drawn):
        satisfy(rule.rule, drawn, draw)


def given_tensors(names: tuple[str, ...], desc: Mapping[str, Any]) -> list[Desc]:
    """Returns the given ones among some tensors; those of an array one by one."""
    given = [desc[name] for name in names if desc.get(name) is not None]
    return [tensor for each in given for tensor in (each if isinstance(each, list) else [each])]


def _same(key: str) -> Callable[[Any, Drawn, st.DrawFn], None]:
    def make(rule: SameType | SameSizes | SameRank, drawn: Drawn, draw: st.DrawFn) -> None:
        first, *others = given_tensors(rule.tensors, drawn.desc) or [{}]
        along = drawn.desc[rule.but_along] if isinstance(rule, SameSizes) and rule.but_along else None
        for other in others:
            kept = other[key]
            other[key] = first[key] if key == "DataType" else list(first[key])
            if along is not None:
                other[key][along] = kept[along]

    return make


def _named(rule: TypeNamed, drawn: Drawn, draw: st.DrawFn) -> None:
    drawn.desc[rule.attribute] = drawn.desc[rule.tensor]["DataType"]


def _axes(rule: AxesBelowRank, drawn: Drawn, draw: st.DrawFn) -> None:
    rank = len(drawn.desc[rule.of]["Sizes"])
    drawn.desc[rule.attribute] = draw(st.lists(st.integers(0, rank - 1), unique=True))


def _axis(rule: Axis, drawn: Drawn, draw: st.DrawFn) -> None:
    rank = len(given_tensors((rule.of,), drawn.desc)[0]["Sizes"])
    if drawn.desc[rule.attribute] >= rank:
        drawn.desc[rule.attribute] = draw(st.integers(0, rank - 1))


def _between(rule: Between, drawn: Drawn, draw: st.DrawFn) -> None:
    least = 0 if rule.least is None else number_of(rule.least, drawn.desc)
    greatest = 4 if rule.greatest is None else number_of(rule.greatest, drawn.desc)
    if not least <= number_of(rule.number, drawn.desc) <= greatest:
        set_number(rule.number, draw(st.integers(least, greatest)), drawn.desc)


def _leading_ones(rule: LeadingOnes, drawn: Drawn, draw: st.DrawFn) -> None:
    sizes = drawn.desc[rule.tensor]["Sizes"]
    lead = max(len(sizes) - number_of(rule.last, drawn.desc), 0)
    sizes[:lead] = [1] * lead


def _divides(rule: Divides, drawn: Drawn, draw: st.DrawFn) -> None:
    divisor = number_of(rule.divisor, drawn.desc)
    if number_of(rule.of, drawn.desc) % divisor:
        set_number(rule.of, divisor * draw(st.integers(1, 2)), drawn.desc)


def _equal(rule: Equal, drawn: Drawn, draw: st.DrawFn) -> None:
    set_number(rule.right, number_of(rule.left, drawn.desc), drawn.desc)


def _number(rule: Number, drawn: Drawn, draw: st.DrawFn) -> None:
    for name in rule.attributes:
        drawn.desc[name] = [1.5] * len(drawn.desc[name]) if isinstance(drawn.desc[name], list) else 1.5


def _spatial(rule: Spatial, drawn: Drawn, draw: st.DrawFn) -> None:
    for name in rule.arrays:
        drawn.desc[name] = drawn.desc[name][: len(drawn.desc[rule.of]["Sizes"]) - 2]


def _windows(rule: WindowSteps, drawn: Drawn, draw: st.DrawFn) -> None:
    desc = drawn.desc
    sizes = desc[rule.windows.over]["Sizes"][2:]
    desc["WindowSize"] = [draw(st.integers(1, size)) for size in sizes]
    desc["StartPadding"] = [draw(st.integers(0, window - 1)) for window in desc["WindowSize"]]
    desc["EndPadding"] = [0] * len(sizes)
    desc["Strides"] = [max(step, 1) for step in desc["Strides"]]
    if rule.windows.dilated:
        desc["Dilations"] = [1] * len(sizes)


def _fits_rank(rule: FitsRank, drawn: Drawn, draw: st.DrawFn) -> None:
    desc = drawn.desc
    source = desc["InputTensor"]["Sizes"]
    kept = desc["IndexDimensions"]
    if prod([*source[: desc["Axis"]], 1][: max(kept - 1, 0)]) != 1 or kept - 1 > desc["Axis"]:
        desc["IndexDimensions"] = 1


def _filter_fits(rule: FilterFits, drawn: Drawn, draw: st.DrawFn) -> None:
    desc = drawn.desc
    for i, size in enumerate(desc["InputTensor"]["Sizes"][2:]):
        room = size + desc["StartPadding"][i] + desc["EndPadding"][i]
        if 1 + (desc["FilterTensor"]["Sizes"][i + 2] - 1) * desc["Dilations"][i] > room:
            desc["FilterTensor"]["Sizes"][i + 2] = 1


def _padding_leaves(rule: PaddingLeavesOutput, drawn: Drawn, draw: st.DrawFn) -> None:
    drawn.desc["StartPadding"] = [0] * len(drawn.desc["StartPadding"])
    drawn.desc["EndPadding"] = [0] * len(drawn.desc["EndPadding"])


def _shapes(rule: Shapes, drawn: Drawn, draw: st.DrawFn) -> None:
    outputs = output_sizes(drawn.operator, drawn.desc)
    desc = {**drawn.desc, **{name: {"Sizes": list(sizes)} for name, sizes in outputs.items()}}
    for name, shape in rule.shapes.items():
        if drawn.desc.get(name) is not None:
            rank = len(drawn.desc[name]["Sizes"])
            fixed = [number_of(each, desc) for each in shape if each is not ...]
            drawn.desc[name]["Sizes"] = fixed + [1] * (rank - len(fixed))


def holds_as_drawn(rule: Rule, drawn: Drawn, draw: st.DrawFn) -> None:
    """The rule holds as the desc is drawn, or once the other rules do."""


SATISFY: dict[type[Rule], Callable[[Any, Drawn, st.DrawFn], None]] = {
    When: _conditional,
    WithTensor: _conditional,
    AtLevels: _conditional,
    OnBasis: _conditional,
    SameType: _same("DataType"),
    SameRank: holds_as_drawn,
    SameSizes: _same("Sizes"),
    TypeNamed: _named,
    AxesBelowRank: _axes,
    Axis: _axis,
    Between: _between,
    LeadingOnes: _leading_ones,
    Divides: _divides,
    Equal: _equal,
    Number: _number,
    Spatial: _spatial,
    WindowSteps: _windows,
    WindowHoldsElement: holds_as_drawn,
    IndexFits: holds_as_drawn,
    FitsRank: _fits_rank,
    FilterFits: _filter_fits,
    PaddingLeavesOutput: _padding_leaves,
    Shapes: _shapes,
}
"""Makes a desc satisfy a rule, by class of the rule."""

SATISFY_IN: dict[str, dict[type[Rule], Callable[[Any, Drawn, st.DrawFn], None]]] = {}
"""The same for operator families that have tables of their own."""

PREPARE: dict[str, Callable[[Drawn], None]] = {}
"""Makes an output fit the inputs that determine it if given, by operator."""

SHAPED: dict[str, Callable[[Drawn, st.DrawFn], None]] = {}
"""Draws the sizes and ranks of tensors that depend on each other, by operator."""
