"""The ``opwire`` command on a machine whose GPUs are fakes."""

from __future__ import annotations

from opwire_service.__main__ import main
from opwire_service.devices import DEVICES

# Outside of the condition, because processes that the command spawns read this file too.
DEVICES["cuda"] = "tests.fake_gpu:FakeGpu"

if __name__ == "__main__":
    main()
