"""Feature levels.

Source: ``DML_FEATURE_LEVEL`` and the feature level history of DirectML.
"""

from __future__ import annotations

from enum import IntEnum

PREFIX = "DML_FEATURE_LEVEL_"


class FeatureLevel(IntEnum):
    """A DirectML feature level. Values are those of directml.h; levels compare as integers."""

    V1_0 = 0x1000
    V2_0 = 0x2000
    V2_1 = 0x2100
    V3_0 = 0x3000
    V3_1 = 0x3100
    V4_0 = 0x4000
    V4_1 = 0x4100
    V5_0 = 0x5000
    V5_1 = 0x5100
    V5_2 = 0x5200
    V6_0 = 0x6000
    V6_1 = 0x6100
    V6_2 = 0x6200
    V6_3 = 0x6300
    V6_4 = 0x6400

    @property
    def short(self) -> str:
        """The name without a prefix: ``4_1``."""
        return self.name[1:]

    @property
    def directml(self) -> str:
        """The first version of DirectML that has the level: ``1.8.0``."""
        return _VERSIONS[self.short]

    def __str__(self) -> str:
        return PREFIX + self.short

    @classmethod
    def parse(cls, given: object) -> FeatureLevel:
        """Parses a level written as ``DML_FEATURE_LEVEL_4_1``, ``4_1``, ``"0x4100"`` or the integer 0x4100.

        Raises:
            ValueError: there is no such level.
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, int) and not isinstance(given, bool):
            return cls(given)
        if isinstance(given, str):
            level = _SPELLINGS.get(given.removeprefix(PREFIX))
            if level is not None:
                return level
        raise ValueError(f"{given!r} is not a feature level")


_SPELLINGS = {spelling: level for level in FeatureLevel for spelling in (level.short, f"0x{level.value:04x}")}

_VERSIONS = {
    "1_0": "1.0.0",
    "2_0": "1.1.0",
    "2_1": "1.2.0",
    "3_0": "1.4.0",
    "3_1": "1.5.0",
    "4_0": "1.6.0",
    "4_1": "1.7.0",
    "5_0": "1.8.0",
    "5_1": "1.9.0",
    "5_2": "1.10.0",
    "6_0": "1.11.0",
    "6_1": "1.12.0",
    "6_2": "1.13.0",
    "6_3": "1.15.0",
    "6_4": "1.15.0",
}
"""The first version of DirectML with each level. Source: the version history of DirectML."""

LOWEST, HIGHEST = min(FeatureLevel), max(FeatureLevel)
