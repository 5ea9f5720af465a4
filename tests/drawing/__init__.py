"""Descs drawn from the declarations: valid ones of any operator, and ones that break one rule.

Kinds of members and rules are looked up by their class; what holds a new kind or rule is entered here and nowhere else.
"""

from . import matrices, quantized
from .descs import SATISFY, SHAPED, Drawn, descs
from .faults import BREAK, OWN, broken
from .outputs import SIZES

for family in (quantized, matrices):
    SHAPED.update(family.SHAPED)
    SATISFY.update(family.SATISFY)
    SIZES.update(family.SIZES)
    BREAK.update(family.BREAK)
    OWN.update(family.OWN)

__all__ = ["Drawn", "broken", "descs"]
