"""A server without its network: devices, dispatcher and pipeline, from settings; ready once all devices are."""

from __future__ import annotations

from importlib.metadata import version

from opwire.describe import ServerInfo
from opwire.level import HIGHEST, FeatureLevel
from opwire.wire import Encoding

from .devices import load
from .dispatch import Dispatcher
from .oip.statistics import Statistics
from .pipeline import Pipeline
from .settings import Settings


class Server:
    """What the routes work on. It is ready from its making until ``close``."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        devices = {name: load(name) for name in settings.devices}
        dispatcher = Dispatcher(devices, settings.threads, settings.limits.queued, settings.limits.queued_work)
        self.pipeline = Pipeline(dispatcher, settings.limits, settings.cached_plans)
        self.oip_statistics = Statistics()
        self.ready = True

    async def close(self) -> None:
        """Takes no more work, lets what runs end, and gives up the devices."""
        self.ready = False
        await self.pipeline.dispatcher.close()

    def describe(self) -> ServerInfo:
        """What a client may want to know."""
        return {
            "name": "opwire",
            "version": version("opwire"),
            "ready": self.ready,
            "feature_levels": [str(level) for level in FeatureLevel],
            "default_feature_level": str(HIGHEST),
            "devices": [device.describe() for device in self.pipeline.dispatcher.devices.values()],
            "default_device": self.pipeline.default_device,
            "limits": self.settings.limits.to_json(),
            "encodings": [encoding.value for encoding in Encoding],
        }
