"""Hypothesis strategies for descs, derived from the declarations: valid ones, and ones that break one rule.

The tables are keyed by the class of a member or rule; a new kind is entered here and nowhere else.
"""

from importlib import import_module

from .descs import PREPARE, SATISFY_IN, SHAPED, SMALL, Drawn, descs
from .faults import BREAK_IN, broken
from .outputs import SEVERAL, SIZES

_TABLES = """
    attention blocks convolution matrices movement indexed normalization pooling quantized recurrent regions scaling
"""

for _module in _TABLES.split():
    tables = import_module(f".{_module}", __name__)
    for family in tables.FAMILIES:
        SATISFY_IN[family] = SATISFY_IN.get(family, {}) | tables.SATISFY
        BREAK_IN[family] = BREAK_IN.get(family, {}) | tables.BREAK
    for table, name in ((SHAPED, "SHAPED"), (PREPARE, "PREPARE"), (SIZES, "SIZES"), (SEVERAL, "SEVERAL")):
        table.update(getattr(tables, name, {}))

__all__ = ["SMALL", "Drawn", "broken", "descs"]
