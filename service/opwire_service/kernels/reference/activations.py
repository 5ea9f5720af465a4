"""Elementwise activations."""

from __future__ import annotations

from .formulas import of_family

KERNELS = of_family("activations")
