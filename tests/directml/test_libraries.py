"""opwire's judgement of drawn and changed descs against DirectML's libraries, fetched on first use."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.directml.asking import DirectML
from tests.directml.comparing import Libraries, changed, operators
from tests.directml.libraries import VERSIONS, Unavailable
from tests.directml.recorded import Disagreement, compare, recorded

DESCS = 100_000
"""Descs of all operators."""

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def libraries() -> Iterator[Libraries]:
    try:
        made = Libraries()
    except Unavailable as reason:
        pytest.skip(str(reason))
    yield made
    made.close()


def repeat(found: Disagreement) -> str:
    """Returns a disagreement with the commands that repeat it."""
    operator = json.dumps(found.recorded.operator)
    commands = [f"echo '{operator}' | scripts/directml {level}" for level in found.recorded.answers]
    return "\n".join([str(found), *commands, f"echo '{operator}' | opwire validate --level LEVEL -"])


@pytest.mark.parametrize("name", operators())
def test_descs_are_valid_where_directml_accepts_them(name, libraries):
    asked = (libraries.ask(name, desc) for desc in changed(name, DESCS // len(operators())))
    found = [found for found in map(compare, asked) if found is not None]
    assert not found, "\n\n".join([f"{len(found)} descs disagree, among them", *map(repeat, found[:5])])


@pytest.mark.parametrize("level", VERSIONS)
def test_the_library_gives_the_recorded_answers(level):
    try:
        library = DirectML(level)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with library:
        for each in recorded():
            answer = library.ask(each.type, each.desc)
            given = None if answer.result is None else answer.accepted
            assert given == each.answers.get(level), each.operator
