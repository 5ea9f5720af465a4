"""Descs drawn from the declarations: valid ones of any operator, and ones that break one rule.

Kinds of members and rules are looked up by their class; what holds a new kind or rule is entered here and nowhere else.
"""

from . import attention, faults, matrices, outputs, quantized, recurrent
from . import descs as drawing
from .descs import Drawn, descs
from .faults import broken

for family in (quantized, matrices, recurrent, attention):
    drawing.SHAPED.update(family.SHAPED)
    drawing.SATISFY.update(family.SATISFY)
    drawing.OWN.update(dict.fromkeys(family.OWN, drawing.drawn_so))
    outputs.SIZES.update(family.SIZES)
    faults.BREAK.update(family.BREAK)
    faults.OWN.update(family.OWN)

__all__ = ["Drawn", "broken", "descs"]
