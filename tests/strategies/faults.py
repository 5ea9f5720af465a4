"""Descs that break a rule: valid ones with a change, and the violation that it must cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from opwire.operators.filters import FilterFits, PaddingLeavesOutput
from opwire.operators.gather import FitsRank
from opwire.operators.indices import IndexFits
from opwire.rules import Rule
from opwire.rules.conditions import AtLevels, OnBasis, When, WithTensor
from opwire.rules.numbers import AxesBelowRank, Axis, Between, Divides, Equal, Number
from opwire.rules.shapes import Shapes
from opwire.rules.tensors import LeadingOnes, SameRank, SameSizes, SameType, TypeNamed
from opwire.rules.windows import Spatial, WindowHoldsElement, WindowSteps
from opwire.schema import CATALOG
from opwire.tensor import DataType
from opwire.violation import Basis

from .changes import Place, changed, tensor_at
from .descs import Drawn, applies
from .numbers import number_of

Change = tuple[dict[str, Any], str, str]
"""A desc, and the violation's code and pointer relative to the desc."""


def broken(rule: Rule, drawn: Drawn) -> Iterator[Change]:
    """Yields descs that break a rule, preferably only this one; none if the rule does not apply."""
    if applies(rule, drawn):
        own = BREAK_IN.get(CATALOG[drawn.operator.name].family, {})
        yield from (own.get(type(rule)) or BREAK[type(rule)])(rule, drawn)


def _written(place: Place) -> str:
    return "".join(f"/{key}" for key in place)


def _given(names: tuple[str, ...], drawn: Drawn) -> list[Place]:
    """Returns the given tensors; the others are compared with the first."""
    found: list[Place] = []
    for name in names:
        value = drawn.desc.get(name)
        if value is not None:
            found += [(name, k) for k in range(len(value))] if isinstance(value, list) else [(name,)]
    return found


def _type(rule: SameType, drawn: Drawn) -> Iterator[Change]:
    for place in _given(rule.tensors, drawn)[1:]:
        for data_type in drawn.row.tensors[str(place[0])].data_types:
            if data_type.name != tensor_at(place, drawn.desc)["DataType"]:
                desc = changed(drawn, *place, DataType=data_type.name)
                yield desc, "data_types_differ", f"{_written(place)}/DataType"


def _named(rule: TypeNamed, drawn: Drawn) -> Iterator[Change]:
    for data_type in (DataType.FLOAT32, DataType.INT8):
        if data_type.name != drawn.desc[rule.attribute]:
            yield {**drawn.desc, rule.attribute: data_type.name}, "data_types_differ", f"/{rule.attribute}"


def _rank(rule: SameRank, drawn: Drawn) -> Iterator[Change]:
    for place in _given(rule.tensors, drawn)[1:]:
        sizes = tensor_at(place, drawn.desc)["Sizes"]
        for other in ([*sizes, 1], [1, *sizes], sizes[:-1], sizes[1:]):
            least, greatest = drawn.row.tensors[str(place[0])].ranks
            if least <= len(other) <= greatest:
                desc = changed(drawn, *place, Sizes=other, Strides=None)
                yield desc, "ranks_differ", f"{_written(place)}/Sizes"


def _sizes(rule: SameSizes, drawn: Drawn) -> Iterator[Change]:
    along = drawn.desc[rule.but_along] if rule.but_along else None
    first, *others = _given(rule.tensors, drawn) or [()]
    for place in others:
        # Where sizes may differ along an axis, changing the first tensor must blame the other one, too.
        for other in (place, first) if rule.but_along else (place,):
            sizes = list(tensor_at(other, drawn.desc)["Sizes"])
            at = next((i for i in range(len(sizes)) if i != along), None)
            if at is not None:
                sizes[at] += 1
                yield changed(drawn, *other, Sizes=sizes), "sizes_mismatch", f"{_written(place)}/Sizes"
    if "WindowSize" in drawn.desc and rule.tensors[1] in {member.name for member in drawn.operator.members.outputs}:
        yield from _second_output(rule.tensors[1], drawn)


def _second_output(second: str, drawn: Drawn) -> Iterator[Change]:
    """Two outputs of a pooling that round differently; each would be allowed on its own."""
    desc = deepcopy(drawn.desc)
    n = len(desc["WindowSize"])
    desc["InputTensor"] = {**desc["InputTensor"], "Sizes": [1, 1, *[2] * n], "Strides": None}
    desc |= {"WindowSize": [1] * n, "Strides": [2] * n, "StartPadding": [0] * n, "EndPadding": [0] * n}
    data_type = drawn.row.tensors[second].data_types[0].name
    desc[second] = {"DataType": data_type, "Sizes": [1, 1, 2, *[1] * (n - 1)]}
    yield desc, "sizes_mismatch", f"/{second}/Sizes"


def _axes(rule: AxesBelowRank, drawn: Drawn) -> Iterator[Change]:
    rank = len(drawn.desc[rule.of]["Sizes"])
    axes = drawn.desc[rule.attribute]
    changes: dict[str, Any] = {rule.attribute: [*axes, rank]}
    yield {**drawn.desc, **changes}, "axis_out_of_range", f"/{rule.attribute}/{len(axes)}"


def _axis(rule: Axis, drawn: Drawn) -> Iterator[Change]:
    rank = len(tensor_at(_given((rule.of,), drawn)[0], drawn.desc)["Sizes"])
    yield {**drawn.desc, rule.attribute: rank}, "axis_out_of_range", f"/{rule.attribute}"


def _between(rule: Between, drawn: Drawn) -> Iterator[Change]:
    name = str(rule.number.place[0])
    if rule.greatest is not None:
        yield {**drawn.desc, name: number_of(rule.greatest, drawn.desc) + 1}, "out_of_range", f"/{name}"


def _leading(rule: LeadingOnes, drawn: Drawn) -> Iterator[Change]:
    sizes = drawn.desc[rule.tensor]["Sizes"]
    if len(sizes) > number_of(rule.last, drawn.desc):
        desc = changed(drawn, rule.tensor, Sizes=[2, *sizes[1:]])
        yield desc, "sizes_mismatch", f"/{rule.tensor}/Sizes/0"


def _divides(rule: Divides, drawn: Drawn) -> Iterator[Change]:
    name = str(rule.divisor.place[0])
    whole = number_of(rule.of, drawn.desc)
    at = "/" + "/".join(map(str, rule.of.place))
    for divisor in (whole + 1, 2, 3):
        if whole % divisor:
            desc = {**deepcopy(drawn.desc), name: divisor}
            yield desc, "sizes_mismatch", at
            channels = desc["InputTensor"]["Sizes"]
            channels[1] = desc["FilterTensor"]["Sizes"][1] * divisor
            yield desc, "sizes_mismatch", at


def _equal(rule: Equal, drawn: Drawn) -> Iterator[Change]:
    tensor, at = rule.right.tensor, rule.right.dimension  # type: ignore[attr-defined]
    sizes = list(drawn.desc[tensor]["Sizes"])
    sizes[at] += 1
    yield changed(drawn, tensor, Sizes=sizes), "sizes_mismatch", "/" + "/".join(map(str, rule.left.place))


def _number(rule: Number, drawn: Drawn) -> Iterator[Change]:
    for name in rule.attributes:
        for wrong in (0, -1):
            if not rule.holds(wrong):
                yield {**drawn.desc, name: wrong}, "out_of_range", f"/{name}"


def _spatial(rule: Spatial, drawn: Drawn) -> Iterator[Change]:
    longer = {name: [*drawn.desc[name], 1] for name in rule.arrays}
    yield {**drawn.desc, **longer}, "count_mismatch", f"/{rule.arrays[0]}"


def _steps(rule: WindowSteps, drawn: Drawn) -> Iterator[Change]:
    for name in rule.windows.steps:
        yield {**drawn.desc, name: [0, *drawn.desc[name][1:]]}, "out_of_range", f"/{name}/0"


def _window_of_padding(rule: WindowHoldsElement, drawn: Drawn) -> Iterator[Change]:
    # The output is derived, so the violation points at the desc.
    padding = [drawn.desc["WindowSize"][0], *drawn.desc["StartPadding"][1:]]
    yield {**drawn.desc, "StartPadding": padding}, "not_computable", ""


def _index(rule: IndexFits, drawn: Drawn) -> Iterator[Change]:
    rank = len(drawn.desc[rule.source]["Sizes"])
    if rank < 2 or DataType.INT32 not in drawn.row.tensors[rule.output].data_types:
        return
    desc = changed(drawn, rule.source, Sizes=[2**16, 2**15 + 1, *[1] * (rank - 2)], Strides=None)
    desc[rule.axes] = [0, 1]
    desc[rule.output] = {"DataType": "INT32", "Sizes": [1] * rank}
    yield desc, "index_overflow", f"/{rule.output}/DataType"


def _fits(rule: FitsRank, drawn: Drawn) -> Iterator[Change]:
    desc = deepcopy(drawn.desc)
    rank = len(desc["InputTensor"]["Sizes"])
    if rank > 1:
        desc["InputTensor"] = {**desc["InputTensor"], "Sizes": [2] * rank, "Strides": None}
        desc["IndicesTensor"] = {**desc["IndicesTensor"], "Sizes": [2] * rank, "Strides": None}
        yield {**desc, "Axis": rank - 1, "IndexDimensions": rank}, "ranks_differ", "/IndexDimensions"


def _filter(rule: FilterFits, drawn: Drawn) -> Iterator[Change]:
    sizes = list(drawn.desc["FilterTensor"]["Sizes"])
    sizes[2] = drawn.desc["InputTensor"]["Sizes"][2] + drawn.desc["StartPadding"][0] + drawn.desc["EndPadding"][0] + 1
    yield changed(drawn, "FilterTensor", Sizes=sizes), "window_too_large", "/FilterTensor/Sizes/2"


def _padding(rule: PaddingLeavesOutput, drawn: Drawn) -> Iterator[Change]:
    padding = [100, *drawn.desc["StartPadding"][1:]]
    yield {**drawn.desc, "StartPadding": padding}, "out_of_range", "/StartPadding/0"


def _shapes(rule: Shapes, drawn: Drawn) -> Iterator[Change]:
    for name in rule.shapes:
        if drawn.desc.get(name) is not None:
            first, second, *rest = drawn.desc[name]["Sizes"]
            yield changed(drawn, name, Sizes=[first, second + 1, *rest]), "sizes_mismatch", f"/{name}/Sizes/1"


def _on_basis(rule: OnBasis, drawn: Drawn) -> Iterator[Change]:
    for desc, code, place in broken(rule.rule, drawn):
        yield desc, "not_computable" if rule.basis is Basis.OPWIRE else code, place


BREAK: dict[type[Rule], Callable[[Any, Drawn], Iterator[Change]]] = {
    When: lambda rule, drawn: broken(rule.rule, drawn),
    WithTensor: lambda rule, drawn: broken(rule.rule, drawn),
    AtLevels: lambda rule, drawn: broken(rule.rule, drawn),
    OnBasis: _on_basis,
    SameType: _type,
    TypeNamed: _named,
    SameRank: _rank,
    SameSizes: _sizes,
    AxesBelowRank: _axes,
    Axis: _axis,
    Between: _between,
    LeadingOnes: _leading,
    Divides: _divides,
    Equal: _equal,
    Number: _number,
    Spatial: _spatial,
    WindowSteps: _steps,
    WindowHoldsElement: _window_of_padding,
    IndexFits: _index,
    FitsRank: _fits,
    FilterFits: _filter,
    PaddingLeavesOutput: _padding,
    Shapes: _shapes,
}
"""Breaks a rule, by class of the rule."""

BREAK_IN: dict[str, dict[type[Rule], Callable[[Any, Drawn], Iterator[Change]]]] = {}
"""The same for operator families that have tables of their own."""
