"""Every operator type stands in each place that "Adding an operator" in CONTRIBUTING.md names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from opwire.operators import OPERATORS
from opwire.schema import CATALOG, document
from opwire_service.kernels.reference import KERNELS
from tests.directml.documented import OPERATORS as DOCUMENTED
from tests.oracles import oracle_of

PLACES: dict[str, Callable[[str, str], bool]] = {
    "client/opwire/schema/{}.json": lambda name, family: name in document(family)["operators"],
    "FAMILY of client/opwire/operators/{}.py": lambda name, _: name in OPERATORS,
    "KERNELS of service/opwire_service/kernels/reference/{}.py": lambda name, _: name in KERNELS,
    "tests/data/directml.json": lambda name, _: name in DOCUMENTED,
    "EXPECTED of tests/oracles/{}.py": lambda name, _: oracle_of(name) is not None,
}
"""Whether a place has an operator, given its name and its family."""


@pytest.mark.parametrize("place", PLACES)
def test_every_operator_type_stands_in(place):
    forgotten = [kind for kind in CATALOG.values() if not PLACES[place](kind.name, kind.family)]
    assert not forgotten, "; ".join(f"add {kind.name} to {place.format(kind.family)}" for kind in forgotten)
