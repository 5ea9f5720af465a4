"""Exponentials and logarithms of vectors, computed as in formulas: see ``formulas.quick``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...formulas import quick
from ..jit.element import intrinsic
from .lanes import Lanes
from .vectors import DOUBLES, WIDTH


@intrinsic
def exponentials(typing: Any, x: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns exponentials, with a relative error below 2**-42, of numbers clamped to ``quick.MOST`` in magnitude."""
    return DOUBLES(DOUBLES), lambda context, builder, signature, args: quick.exp(Lanes(builder, WIDTH), *args)


@intrinsic
def logarithms(typing: Any, x: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns logarithms of positive normal numbers, with a relative error below 2**-44."""
    return DOUBLES(DOUBLES), lambda context, builder, signature, args: quick.log(Lanes(builder, WIDTH), *args)
