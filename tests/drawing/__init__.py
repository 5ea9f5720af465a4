"""Descs drawn from the declarations: valid ones of any operator, and ones that break one rule.

Kinds of members and rules are looked up by their class; what holds a new kind or rule is entered here and nowhere else.
"""

from .descs import Drawn, descs
from .faults import broken

__all__ = ["Drawn", "broken", "descs"]
