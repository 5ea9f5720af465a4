"""Sizes on the command line and in the environment: numbers of bytes, with or without a unit."""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([kmgt]?)(i?b?)", re.IGNORECASE)


def parse_size(given: str | int) -> int:
    """Returns the bytes of a size such as ``2GiB``, ``512M`` or ``1.5 GB``.

    As in Docker, ``M`` is the same as ``MiB``; only ``MB`` is a million bytes.

    Raises:
        ValueError: it is not a size.
    """
    if isinstance(given, int):
        return given
    found = _SIZE.fullmatch(given.strip())
    if found is None or (found[3].lower() == "i"):
        raise ValueError(f"{given!r} is not a size; examples are 1000000, 512M, 2GiB and 2GB")
    base = 1000 if found[3].lower() == "b" else 1024
    size = Fraction(found[1]) * base ** _UNITS[found[2].lower()]
    if size.denominator != 1:
        raise ValueError(f"{given!r} is not a whole number of bytes")
    return int(size)


def show_size(size: int) -> str:
    """Returns a size with the largest unit that divides it."""
    for unit, power in (("TiB", 4), ("GiB", 3), ("MiB", 2), ("KiB", 1)):
        if size and size % 1024**power == 0:
            return f"{size // 1024**power}{unit}"
    return str(size)
