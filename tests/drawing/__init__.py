"""Descs drawn from the declarations: valid ones of any operator, and ones that break one rule.

Kinds of members and rules are looked up by their class; what holds a new kind or rule is entered here and nowhere else.
"""

from . import blocks, normalization, pooling, regions
from .descs import SATISFY_IN, SHAPED, Drawn, descs
from .faults import BREAK_IN, broken
from .outputs import SEVERAL, SIZES

for tables in (blocks, normalization, pooling, regions):
    SATISFY_IN.update(dict.fromkeys(tables.FAMILIES, tables.SATISFY))
    BREAK_IN.update(dict.fromkeys(tables.FAMILIES, tables.BREAK))
SHAPED.update(regions.SHAPED | blocks.SHAPED)
SIZES.update(pooling.SIZES | regions.SIZES)
SEVERAL.update(normalization.SEVERAL | regions.SEVERAL | blocks.SEVERAL)

__all__ = ["Drawn", "broken", "descs"]
