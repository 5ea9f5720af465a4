"""The ``opwire`` command on a machine with fake GPUs."""

from __future__ import annotations

from opwire_service.__main__ import main
from opwire_service.devices import DEVICES

# Not below the condition, because worker processes import this file too.
DEVICES["cuda"] = "tests.support.gpu.counting_gpu:FakeGpu"

if __name__ == "__main__":
    main()
