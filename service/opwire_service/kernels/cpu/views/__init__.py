"""Operators that move elements, as copies by compiled kernels."""
