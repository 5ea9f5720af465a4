"""The declarations and the catalog against the documented tables, at every level."""

from __future__ import annotations

import itertools

import pytest

from opwire.check import validate
from opwire.enums import ReduceFunction
from opwire.fields import Array, Count, Enumerated, Role, TensorMember
from opwire.level import FeatureLevel
from opwire.operators import OPERATORS
from opwire.schema import CATALOG, find
from opwire.support import row_for
from opwire.tensor import DataType
from tests.directml.tensor_support import FACTS, LEVELS, SUPPORT, Support


def declared_rows(support: Support):
    operator = OPERATORS[support.operator]
    # The rows of REDUCE depend on its function; those of other operators on nothing.
    return operator.support.rows({} if support.function is None else {"Function": ReduceFunction[support.function]})


def test_levels_match_the_documentation():
    assert {level.short: level.value for level in FeatureLevel} == FACTS["levels"]
    assert [level.short for level in sorted(FeatureLevel)] == LEVELS


def test_data_types_match_the_documentation():
    assert {row.name: [row.code, row.bits, row.introduced.short] for row in DataType} == FACTS["data_types"]


def test_the_catalog_matches_the_documentation():
    assert {row.name: [row.value, row.introduced.short] for row in CATALOG.values()} == FACTS["operators"]


def test_aliases_match_the_header():
    for alias, name in FACTS["aliases"].items():
        assert find(alias) == find(f"DML_OPERATOR_{alias}") == CATALOG[name]


def test_every_executable_operator_is_documented():
    assert {support.operator for support in SUPPORT} == set(FACTS["fields"]) <= set(OPERATORS)
    functions = {support.function for support in SUPPORT if support.operator == "REDUCE"}
    assert functions == {row.name for row in ReduceFunction}


@pytest.mark.parametrize("name", FACTS["fields"])
def test_fields_match_the_struct(name):
    def written(member):
        return member.name + "?" * (isinstance(member, TensorMember) and member.role is Role.OPTIONAL_OUTPUT)

    fields = OPERATORS[name].members.every
    assert " ".join(map(written, fields)) == FACTS["fields"][name]
    for member in fields:
        if isinstance(member, Enumerated):
            assert {row.name: row.value for row in member.type} == FACTS["enums"][member.name]
        elif isinstance(member, Count):
            arrays = [other.name for other in fields if isinstance(other, Array)]
            assert list(member.counts) == arrays


@pytest.mark.parametrize("support", SUPPORT, ids=str)
def test_support_rows_match_the_documentation_at_every_level(support):
    rows = declared_rows(support)
    for level in LEVELS:
        row, documented = row_for(rows, FeatureLevel.parse(level)), support.at(level)
        assert (row is None) == (documented is None), level
        if row is None or documented is None:
            continue
        assert list(row.tensors) == list(documented), level
        for name, limits in row.tensors.items():
            page = limits.documented
            assert {data_type.name for data_type in page.data_types} == documented[name].data_types, (level, name)
            assert range(page.ranks[0], page.ranks[1] + 1) == documented[name].ranks, (level, name)


@pytest.mark.parametrize("support", SUPPORT, ids=str)
def test_support_never_shrinks(support):
    rows = declared_rows(support)
    assert [row.level for row in rows] == sorted((row.level for row in rows), reverse=True)
    for above, below in itertools.pairwise(rows):
        for name, given in below.tensors.items():
            limits, wider = given.documented, above.tensors[name].documented
            assert set(limits.data_types) <= set(wider.data_types)
            assert wider.ranks[0] <= limits.ranks[0]
            assert limits.ranks[1] <= wider.ranks[1]


def operator_with(support: Support, data_type: str, rank: int) -> dict[str, object]:
    """Returns a desc that can only violate rules on data types and ranks; its output is derived."""
    desc: dict[str, object] = {"InputTensor": {"DataType": data_type, "Sizes": [2] * rank}}
    spatial = max(rank - 2, 0)
    for member in OPERATORS[support.operator].members.every:
        if isinstance(member, Enumerated):
            desc[member.name] = support.function or "INCREASING"
        elif isinstance(member, Array) and member.name != "Axes":
            desc[member.name] = [0 if "Padding" in member.name else 1] * spatial
        elif isinstance(member, Array):
            desc[member.name] = [0]
    return {"type": support.operator, "desc": desc}


@pytest.mark.parametrize("support", SUPPORT, ids=str)
def test_lowest_levels_of_types_and_ranks_match_the_documentation(support):
    types = {row.name for row in DataType}
    pooling = support.operator.startswith("MAX_POOLING")
    for data_type in types:
        for rank in range(1, 9):
            outputs = {"OutputTensor": (data_type, rank)} if pooling else {}
            lowest = support.lowest({"InputTensor": (data_type, rank), **outputs})
            found = validate(operator_with(support, data_type, rank))
            minimum = found.minimum_feature_level
            assert (None if minimum is None else minimum.short) == lowest, (data_type, rank)
            # The highest level accepts whatever any level accepts.
            assert found.valid == (lowest is not None), (data_type, rank)
