"""Tests lie where the package that they test lies: ``tests/unit/http`` tests ``opwire_service/http``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.paths import ROOT

ABOVE = (ROOT / "client" / "opwire", ROOT / "service" / "opwire_service", ROOT)
"""The folders whose folders have tests."""

CONTRACT = Path("contract")
"""Tests of the modules that lie in no package of ``opwire``."""


@pytest.mark.parametrize("tests", [ROOT / "tests" / "unit", ROOT / "tests" / "e2e"], ids=lambda path: path.name)
def test_every_test_lies_in_the_folder_of_a_room(tests: Path) -> None:
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    assert len(folders) > 5
    lost = {folder for folder in folders if folder == Path() or not any((above / folder).is_dir() for above in ABOVE)}
    assert lost <= {CONTRACT}
