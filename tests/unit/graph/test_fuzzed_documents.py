"""Graphs and DxDispatch models that are cyclic, deep, huge or mutilated are accepted or refused, no more."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.dxdispatch import read_model
from opwire.dxdispatch.text import read_text
from opwire.errors import OpwireError
from opwire.graph import MOST_NODES, as_named, as_numbered, check_graph, validate_graph
from opwire.level import FeatureLevel
from opwire.violation import Violation
from opwire_service.kernels.graph import GraphMemory
from tests.strategies.mutation import documents
from tests.support.http.pointers import resolves
from tests.support.paths import MODELS
from tests.support.profiles import examples

X: dict[str, Any] = {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 3]}
PAIR: dict[str, Any] = {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 6]}


def copied(source: str) -> dict[str, Any]:
    return {"type": "ELEMENT_WISE_IDENTITY", "desc": {"InputTensor": X}, "inputs": {"InputTensor": source}}


def several() -> dict[str, Any]:
    """Returns a graph with a constant, an array of tensors, two outputs of one node, and one tensor read twice."""
    split = {"InputTensor": PAIR, "OutputTensors": [X, X], "Axis": 3}
    nodes = {
        "a": copied("input:x"),
        "w": {"constant": {"data": [0, 1, 2, 3, 4, 5]}},
        "join": {
            "type": "JOIN",
            "desc": {"InputTensors": [X, X], "OutputTensor": PAIR, "Axis": 3},
            "inputs": {"InputTensors": ["a", "w"]},
        },
        "split": {"type": "SPLIT", "desc": split, "inputs": {"InputTensor": "join"}},
        "sum": {
            "type": "ELEMENT_WISE_ADD",
            "desc": {"ATensor": X, "BTensor": X},
            "inputs": {"ATensor": "split.OutputTensors[0]", "BTensor": "a.OutputTensor"},
        },
    }
    outputs = {"y": "sum", "z": "split.OutputTensors[1]"}
    return {"nodes": nodes, "inputs": ["x"], "outputs": outputs}


def refused(call: Callable[[], object]) -> Sequence[Violation]:
    """Returns the violations that a call is refused for."""
    try:
        call()
    except OpwireError as error:
        return error.violations
    return ()


def require_consistent(graph: Any) -> None:
    """Requires that all ways to check a graph agree, at places that exist, and that a valid one can be planned."""
    for level in (FeatureLevel.V6_4, FeatureLevel.V1_0):
        found = validate_graph(graph, level, pointer="/graph")
        json.dumps(found.to_json())
        assert all(resolves({"graph": graph}, violation.pointer) for violation in found.violations)
        assert refused(lambda: check_graph(graph, level, pointer="/graph")) == found.violations  # noqa: B023 # called at once
    lowest = validate_graph(graph).minimum_feature_level
    if lowest is not None:
        plan = check_graph(graph, lowest)
        assert 0 <= GraphMemory(plan).size < 2**63
        assert check_graph(as_named(graph), lowest).inputs == plan.inputs
        for other in (as_named(graph), as_numbered(graph)):
            assert [step.plan.outputs for step in check_graph(other, lowest).attributes.steps] == [
                step.plan.outputs for step in plan.attributes.steps
            ]


DECLARED = {**several(), "inputs": {"x": {"DataType": "FLOAT32", "Sizes": [6], "Strides": [1]}}}


@pytest.mark.parametrize("graph", [several(), DECLARED, as_numbered(several())], ids=["named", "declared", "numbered"])
def test_mutilated_graphs_are_accepted_or_refused_at_existing_places(graph):
    require_consistent(graph)
    assert validate_graph(graph).valid

    @examples(80)
    @given(documents(graph))
    def holds(changed):
        require_consistent(changed)

    holds()


def is_cyclic(sources: Sequence[int]) -> bool:
    """Whether nodes that each read one other, or the input of the graph at -1, form a cycle."""
    good = {-1}
    for start in range(len(sources)):
        path: list[int] = []
        node = start
        while node not in good:
            if len(path) > len(sources):
                return True
            path.append(node)
            node = sources[node]
        good.update(path)
    return False


def wired(sources: Sequence[int], order: Sequence[int]) -> dict[str, Any]:
    """Returns a graph of copies in an order, with every unread one as an output."""
    names = ["input:x" if source < 0 else f"n{source}" for source in sources]
    nodes = {f"n{i}": copied(names[i]) for i in order}
    ends = sorted(set(range(len(sources))) - set(sources)) or [0]
    return {"nodes": nodes, "outputs": {f"y{i}": f"n{i}" for i in ends}}


@examples(80)
@given(st.data())
def test_cycles_of_any_shape_are_found(data):
    count = data.draw(st.integers(1, 12))
    sources = data.draw(st.lists(st.integers(-1, count - 1), min_size=count, max_size=count))
    graph = wired(sources, data.draw(st.permutations(range(count))))
    codes = {violation.code.value for violation in validate_graph(graph).violations}
    assert codes == ({"graph_cycle"} if is_cyclic(sources) else set())
    require_consistent(graph)


@pytest.mark.parametrize(
    ("count", "seed"), [(500, 0), *(pytest.param(MOST_NODES, seed, marks=pytest.mark.thorough) for seed in range(12))]
)
def test_the_largest_graphs_are_checked_in_any_order(count, seed):
    """A chain, one long cycle, and trees of all widths, up to the number of nodes that is allowed, shuffled."""
    draw = random.Random(seed)
    order = draw.sample(range(count), count)
    width = draw.choice([1, 2, 10, 100, count])
    for sources, cyclic in (
        ([i - 1 for i in range(count)], False),
        ([(i - 1) % count for i in range(count)], True),
        ([i // width - 1 if width > 1 else draw.randrange(-1, i) for i in range(count)], False),
    ):
        graph = wired(sources, order)
        assert validate_graph(graph).valid is not cyclic
        assert is_cyclic(sources) is cyclic
        if not cyclic:
            assert len(GraphMemory(check_graph(graph)).offsets) <= count


def nested(depth: int) -> Any:
    value: Any = "input:x"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [1, 2, 500, pytest.param(20_000, marks=pytest.mark.thorough)])
def test_deep_values_are_refused_wherever_they_are(depth):
    value = nested(depth)
    for graph in (
        value,
        {"nodes": value, "outputs": {"y": "a"}},
        {"nodes": {"a": value}, "outputs": {"y": "a"}},
        {"nodes": {"a": copied(value)}, "outputs": {"y": "a"}},
        {"nodes": {"a": {**copied("input:x"), "desc": {"InputTensor": value}}}, "outputs": {"y": "a"}},
        {"nodes": {"a": {**copied("input:x"), "desc": {"InputTensor": {**X, "Sizes": value}}}}, "outputs": {"y": "a"}},
        {"nodes": {"a": copied("input:x")}, "outputs": {"y": value}},
        {"nodes": {"a": copied("input:x")}, "inputs": [value], "outputs": {"y": "a"}},
        {"Nodes": [value], "OutputEdges": [value]},
        {"Nodes": [{"Desc": {"Operator": value}}], "OutputEdges": value},
    ):
        assert not validate_graph(graph).valid


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.json")), ids=lambda path: path.stem)
def test_mutilated_models_are_accepted_or_refused_at_existing_places(path):
    """Several changes at once, with values that tend to break programs, at every feature level."""
    whole = read_text(path.read_bytes())

    @examples(40)
    @given(documents(whole))
    def holds(changed):
        malformed = refused(lambda: read_model(changed))
        assert all(resolves(changed, violation.pointer) for violation in malformed)
        if malformed:
            return
        model = read_model(changed)
        for name, found in model.validate(FeatureLevel.V6_4).items():
            json.dumps(found.to_json())
            assert all(resolves(changed, violation.pointer) for violation in found.violations)
            if found.minimum_feature_level is not None:
                model.dispatchables[name].check(found.minimum_feature_level)

    holds()
