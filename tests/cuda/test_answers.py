"""Every result of a card is DirectML's own, or differs from it for a listed reason."""

from __future__ import annotations

import pytest

from tests.directml.computed import by_operator
from tests.directml.judging import judge

pytestmark = [pytest.mark.cuda, pytest.mark.timeout(600)]


@pytest.mark.parametrize("name", by_operator())
def test_the_card_answers_as_directml_does(cuda, name):
    cases = by_operator()[name]
    if not cuda.executes(name):
        pytest.skip(f"cards do not run {name}")
    judge(cases, cuda)
