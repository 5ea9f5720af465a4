"""Elementwise clipping and its gradients."""

from __future__ import annotations

from .formulas import of_family

KERNELS = of_family("clipping")
