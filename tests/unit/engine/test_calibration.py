"""Measuring a device's costs, with one whose costs are known, and storing them."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from opwire.check import Plan, check
from opwire.enums import ReduceFunction
from opwire_service.devices import resolve
from opwire_service.devices.base import Device
from opwire_service.engine.calibration import UNMEASURED, costs_file, identity, measure, read_costs, write_costs
from opwire_service.engine.placement import Cost, Demand
from opwire_service.execution import Arrays, Stop

FIXED, PER_BYTE, PER_VISIT = 2e-3, 3e-9, 1e-8


class Timed(Device):
    """Takes known times for a plan, a byte and a visit; visits of MAX_POOLING count twice."""

    name = "cuda"

    def __init__(self) -> None:
        self.seconds = 0.0

    def clock(self) -> float:
        """Returns the total time of everything that has run."""
        return self.seconds

    @property
    def inline_work(self) -> int:
        """See ``Device``."""
        return 0

    def run(self, plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``Device.run``."""
        demand = Demand.of(plan)
        visit = PER_VISIT * (2 if demand.kind == "MAX_POOLING" else 1)
        self.seconds += FIXED + demand.bytes * PER_BYTE + demand.work * visit

    def describe(self) -> dict[str, object]:
        """See ``Device.describe``."""
        return {"name": self.name, "kind": "cuda", "card": "a bed"}

    def close(self) -> None:
        """See ``Device.close``."""


def test_measured_costs_match_the_device():
    device = Timed()
    cost = measure(device, device.clock)
    assert cost.fixed == pytest.approx(FIXED, rel=0.1)
    assert set(cost.kinds) == {*ReduceFunction.__members__, "MAX_POOLING", "GEMM"}
    tensor = {"DataType": "FLOAT32", "Sizes": [1024, 4096]}
    plan = check({"type": "REDUCE", "desc": {"Function": "L1", "InputTensor": tensor, "Axes": [1]}})
    demand = Demand.of(plan)
    right = FIXED + demand.bytes * PER_BYTE + demand.work * PER_VISIT
    assert cost.seconds(demand) == pytest.approx(right, rel=0.1)
    assert cost.kinds["MAX_POOLING"] == pytest.approx(2 * PER_VISIT, rel=0.1)
    assert cost.kinds["GEMM"] == pytest.approx(PER_VISIT, rel=0.1)


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("OPWIRE_KERNEL_CACHE", str(tmp_path_factory.mktemp("cache") / "new"))


def test_measurements_are_stored_by_device_model():
    first, second = Timed(), Timed()
    assert read_costs({"cuda": first, "cuda:1": second}) == dict.fromkeys(("cuda", "cuda:1"), UNMEASURED["cuda"])
    cost = Cost(1e-4, 1e-10, 1e-12, {"SUM": 2e-12})
    write_costs({identity(first): cost})
    write_costs({"cpu somewhere 4": Cost(1.0, 1.0, 1.0)})
    assert identity(first) == "cuda a bed"
    assert read_costs({"cuda": first, "cuda:1": second}) == {"cuda": cost, "cuda:1": cost}
    assert [asdict(cost) for cost in read_costs({"cuda": first, "cpu": second}).values()] == [asdict(cost)] * 2


@pytest.mark.parametrize("kept", ["", "[]", "{", '{"cuda a bed": {}}', '{"cuda a bed": {"fixed": "fast"}}', "\xff"])
def test_unreadable_measurements_are_ignored(kept):
    costs_file().parent.mkdir()
    costs_file().write_text(kept, "latin-1")
    assert read_costs({"cuda": Timed(), "cuda:1": Timed()})["cuda"] == UNMEASURED["cuda"]
    write_costs({"cuda a bed": Cost(1.0, 1.0, 1.0)})
    assert read_costs({"cuda": Timed(), "cuda:1": Timed()})["cuda"] == Cost(1.0, 1.0, 1.0)


def test_device_names_are_resolved():
    assert resolve(["reference", "cpu", "reference"]) == ("reference", "cpu")
    assert resolve(["auto", "cpu"])[-1] == "cpu"
    for unknown in ("tpu", "cpu:1", "cuda:x", ""):
        with pytest.raises(KeyError):
            resolve([unknown])
