"""Descs drawn from the declarations: valid ones of any operator, and ones that break one rule.

Kinds of members and rules are looked up by their class; what holds a new kind or rule is entered here and nowhere else.
"""

from . import common, normalization, pooling, regions
from .descs import ARRANGE, SATISFY, Drawn, descs
from .faults import BREAK, broken
from .outputs import SIZES

SATISFY |= common.SATISFY | pooling.SATISFY | normalization.SATISFY
BREAK |= common.BREAK | pooling.BREAK | normalization.BREAK
SIZES |= pooling.SIZES | normalization.SIZES | regions.SIZES
ARRANGE |= regions.ARRANGE

__all__ = ["Drawn", "broken", "descs"]
