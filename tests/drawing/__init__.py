"""Descs drawn from the declarations: valid ones of any operator, and ones that break one rule.

Kinds of members and rules are looked up by their class; what holds a new kind or rule is entered here and nowhere else.
"""

from . import movement
from .descs import PREPARE, SATISFY_IN, Drawn, descs
from .faults import BREAK_IN, broken
from .outputs import SEVERAL, SIZES

for families in (movement,):
    SATISFY_IN.update(dict.fromkeys(families.FAMILIES, families.SATISFY))
    BREAK_IN.update(dict.fromkeys(families.FAMILIES, families.BREAK))
    PREPARE.update(families.PREPARE)
    SIZES.update(families.SIZES)
    SEVERAL.update(families.SEVERAL)

__all__ = ["Drawn", "broken", "descs"]
