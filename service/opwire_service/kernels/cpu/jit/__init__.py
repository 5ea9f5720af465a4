"""Compilation of kernels with numba, their on-disk cache, and their lookup."""
