"""Quantization: numbers as integers with a scale and a zero point."""

from __future__ import annotations

from .block_quantization import BLOCKWISE
from .linear_quantization import ELEMENT_WISE

FAMILY = (*ELEMENT_WISE, *BLOCKWISE)
