"""The ``opwire`` command with GPUs that tests can make fail for real."""

from __future__ import annotations

from opwire.check import Plan
from opwire.wire import EncodedTensor
from opwire_service.__main__ import main
from opwire_service.devices import DEVICES
from opwire_service.devices.base import Inputs
from opwire_service.devices.cuda.device import CudaDevice
from opwire_service.execution import Arrays, Stop
from opwire_service.kernels.cuda.job import CudaMemory
from tests.support.gpu.counting_gpu import BREAKS

NOWHERE = CudaMemory({"InputTensor": 2**20}, {"OutputTensor": 2**20}, 0, 0, 0)


class BreakingGpu(CudaDevice):
    """Reads unmapped memory when an input begins with ``BREAKS``, which breaks the CUDA context."""

    def run(self, plan: Plan, inputs: Inputs, outputs: Arrays, stop: Stop) -> None:
        """See ``Device.run``."""
        if any(not isinstance(given, EncodedTensor) and given.flat[0] == BREAKS for given in inputs.values()):
            try:
                with self.lane(stop) as lane:
                    self.enqueue(self.job(plan), NOWHERE, lane.stream, stop)
            except self.failures:
                pass
        super().run(plan, inputs, outputs, stop)


# Not below the condition, because worker processes import this file too.
DEVICES["cuda"] = "tests.cuda.breaking_server:BreakingGpu"

if __name__ == "__main__":
    main()
