"""What opwire decided where DirectML's documentation does not."""

from __future__ import annotations

import pytest

from opwire.describe import whole_schema
from opwire.listing import FAMILIES
from opwire.schema import CATALOG, Departure, decisions_of, document
from scripts import operator_pages
from tests.support.rows import for_each


@pytest.mark.parametrize("family", FAMILIES)
def test_decisions_name_operators_of_their_family(family):
    operators = {name for name, kind in CATALOG.items() if kind.family == family}
    rows = document(family)["decisions"]
    assert rows
    assert all(set(row.get("of", ())) <= operators for row in rows)
    assert len({row["what"] for row in rows}) == len(rows)


@for_each(CATALOG)
def test_sentences_are_whole_and_clauses_are_not(name):
    for decision in decisions_of(name):
        assert decision.what.endswith(".")
        for clause in (decision.page, decision.directml):
            assert clause is None or not clause.endswith(".")


def test_pages_say_what_the_documentation_and_directml_say_otherwise():
    page = dict(operator_pages.pages({}))["selection"].partition("## NONZERO_COORDINATES")[2]
    (decision,) = (each for each in decisions_of("NONZERO_COORDINATES") if each.departure is Departure.UNDEFINED)
    assert f"- {decision.what[:-1]} ([ours](../operators.md#decisions)). The documentation" in page
    assert f"The documentation says: {decision.page}. DirectML {decision.directml} (undefined)." in page


def test_the_schema_has_the_decisions_of_each_operator():
    rows = whole_schema()["operators"]["NONZERO_COORDINATES"]["decisions"]
    assert [row["what"] for row in rows] == [each.what for each in decisions_of("NONZERO_COORDINATES")]
    assert not any("of" in row for row in rows)
