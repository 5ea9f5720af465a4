"""DirectML's recorded products, sums and movements are judged right."""

from __future__ import annotations

import pytest

from tests.directml.verdicts import rows


@pytest.mark.parametrize("name", ["GEMM", "REDUCE", "ACTIVATION_SOFTMAX", "ELEMENT_WISE_ADD", "TILE"])
def test_nothing_is_wrong_with_directml(name: str) -> None:
    (row,) = rows([name])
    assert row["name"] == name
    assert "wrong" not in row["verdicts"], row
