"""The float primitives and constants as C."""

from __future__ import annotations

import struct

from opwire.formulas import Constant, Expression

from ..formulas.slopes import COMPARISONS

FLOATS = {
    **{name: f"{{0}} {sign} {{1}}" for name, sign in COMPARISONS.items()},
    "add": "{0} + {1}",
    "subtract": "{0} - {1}",
    "multiply": "{0} * {1}",
    "divide": "{0} / {1}",
    "negate": "-{0}",
    "absolute": "fabs({0})",
    "sign": "sign_of({0})",
    "not_": "!{0}",
    "select": "{0} ? {1} : {2}",
    "minimum": "least_of({0}, {1})",
    "maximum": "greatest_of({0}, {1})",
    "mean": "mean_of({0}, {1})",
    "remainder": "rest_of({0}, {1})",
    "floor_remainder": "floor_rest_of({0}, {1})",
    "power": "pow({0}, {1})",
    "truncate": "trunc({0})",
    "round_even": "rint({0})",
    "round_away": "round({0})",
}
"""The float primitives whose C expression is not a call by the same name."""

TRUTHS = frozenset((*COMPARISONS, "not_", "and_", "or_", "xor"))


def of_floats(primitive: str, operands: list[str]) -> str:
    if primitive in FLOATS:
        return FLOATS[primitive].format(*operands)
    return f"{primitive}({', '.join(operands)})"


def double(constant: Expression) -> str:
    assert isinstance(constant, Constant)
    (bits,) = struct.unpack("<Q", struct.pack("<d", constant.value))
    return f"__longlong_as_double({bits:#x}ll)"
