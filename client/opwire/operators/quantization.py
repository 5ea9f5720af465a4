"""Quantization: numbers as integers with a scale and a zero point."""

from __future__ import annotations

from .linear_quantization import ELEMENT_WISE

FAMILY = ELEMENT_WISE
