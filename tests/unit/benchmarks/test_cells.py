"""Every cell of the benchmarks is a valid request, and every stored result is that of a cell."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from benchmarks.cell import Cell, Tensor
from benchmarks.cells import CELLS
from benchmarks.report import FOLDER
from opwire.check import check

KEY = ("group", "name", "type", "layout", "size")
ALL = [(benchmark, device) for benchmark, devices in CELLS.items() for device in devices]
RESULTS = sorted(FOLDER.glob("*.json"))


def cells(benchmark: str, device: str) -> list[Cell]:
    return list(CELLS[benchmark][device]())


@pytest.mark.parametrize(("benchmark_name", "device"), ALL)
def test_every_cell_is_valid_and_named_once(benchmark_name: str, device: str) -> None:
    names: Counter[tuple[str, ...]] = Counter()
    for cell in cells(benchmark_name, device):
        check(cell.request)
        names[tuple(cell.key.values())] += 1
    assert names.total() > 20
    assert set(names.values()) == {1}


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_stored_results_have_one_form(path) -> None:
    found = json.loads(path.read_text(encoding="utf-8"))
    assert list(found) == ["benchmark", "conditions", "rows"]
    assert found["rows"]
    if found["benchmark"] in CELLS:
        known = cells(found["benchmark"], "cuda" if path.stem.endswith("-cuda") else "cpu")
        measured = [tuple(row[name] for name in KEY) for row in found["rows"]]
        assert set(measured) <= {tuple(cell.key.values()) for cell in known}
        assert len(set(measured)) == len(measured)
        for row in found["rows"]:
            assert all(seconds > 0 for seconds in row["seconds"].values())


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor((3, 4)),
        Tensor((3, 4), order=(1, 0)),
        Tensor((2, 3, 4, 5), order=(0, 2, 3, 1)),
        Tensor((3, 4), repeated=(0,)),
        Tensor((3, 4), "int8", order=(1, 0), repeated=(1,)),
    ],
)
def test_the_desc_of_a_tensor_is_that_of_its_array(tensor: Tensor) -> None:
    array = tensor.view(tensor.memory())
    strides = tensor.desc.get("Strides", [step // 8 for step in np.empty(tensor.sizes).strides])
    assert list(array.shape) == tensor.desc["Sizes"]
    for size, step, stride in zip(array.shape, array.strides, strides, strict=True):
        assert size == 1 or step == stride * array.itemsize
