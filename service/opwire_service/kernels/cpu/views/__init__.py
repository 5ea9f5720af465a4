"""Movements as copies, by compiled kernels."""
